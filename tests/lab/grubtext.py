"""The text of a grub.cfg, as grub-mkconfig writes it: what every one of them has, for the boxes that boot by one."""

# Source: grub-mkconfig's 00_header, without the parts for savedefault and graphics.
LOADS_ENVIRONMENT = """\
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
"""

TAKES_NEXT_ENTRY = """\
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="${saved_entry}"
fi
"""

# 41_custom's.
READS_CUSTOM = """\
if [ -f  ${config_directory}/custom.cfg ]; then
  source ${config_directory}/custom.cfg
elif [ -z "${config_directory}" -a -f  $prefix/custom.cfg ]; then
  source $prefix/custom.cfg
fi
"""
