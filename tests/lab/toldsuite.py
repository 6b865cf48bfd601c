"""A benchmark suite that tells figures instead of measuring them: the level by the kernel that runs, and noise.

A shell script that speaks the real suite's language, so that everything around it is the real thing. Run and boot
effects come from the boot id and the job's tag: the same boot and job tell the same figure. A kernel that is not one of
the history's tells a figure far off, so that a measurement of it cannot go unnoticed.
"""

import json
from collections.abc import Iterable
from pathlib import Path

_SCRIPT = """#!/bin/sh
[ "$1" = --list ] && { cat <<'END'
%(listing)s
END
exit; }
command=$1 tag= ops=100000
while [ $# -gt 0 ]; do
  case $1 in --tag) tag=$2;; --batches) ops=${2#*=};; esac
  shift
done
release=$(uname -r)
case $release in %(slow)s) level=30000;; *-bisector-*) level=40000;; *) level=90000;; esac
read -r boot_id </proc/sys/kernel/random/boot_id
crc() { printf %%s "$1" | cksum | { read -r sum rest; echo "$sum"; }; }
# A boot effect of up to half a percent, and half of that from run to run.
level=$((level + $(crc "$boot_id") %% 200 + $(crc "$tag") %% 100))
sleep %(takes_s)s
cat <<END
{"v":1,"type":"env","suite":"s","digest":"d","tag":"$tag","release":"$release","boot_id":"$boot_id",\
"clocksource":"tsc","thp_disabled":true,"cpu":0}
END
case $command in
calibrate) cat <<END
{"v":1,"type":"calibration","test":"page_test","ops":100000,"sample_ms":5}
{"v":1,"type":"end","calibrations":1,"ok":true}
END
;;
*) cat <<END
{"v":1,"type":"sample","test":"page_test","sample":0,"ops":$ops,"warmup_ops":1,"wall_ns":$((ops * 1000000000 / level)),\
"user_ns":1,"sys_ns":1,"minflt":1,"majflt":0,"nvcsw":0,"nivcsw":0,"cpu_start":0,"cpu_end":0,\
"checks":{"ok":true,"faults_per_op":1.0}}
{"v":1,"type":"end","samples":1,"ok":true}
END
;;
esac
"""
_LISTING = {
    "digest": "d",
    "tests": [
        {
            "name": "page_test",
            "unit": "ops/s",
            "better": "higher",
            "aim": "page_test",
            "aim_units": "pages",
            "aim_factor": 1,
            "op": "a page fault",
            "grain": 1,
            "faults_per_op": 1.0,
        }
    ],
}


def told_suite(folder: Path, slow: Iterable[str], *, takes_s: float = 0.0) -> Path:
    """The script in `folder`: kernels whose release ends with one of `slow` (at least one) are a quarter slower."""
    path = folder / "bisector-suite-told"
    folder.mkdir(parents=True, exist_ok=True)
    patterns = "|".join(f"*-{end}" for end in slow)
    path.write_text(_SCRIPT % {"listing": json.dumps(_LISTING), "slow": patterns, "takes_s": takes_s})
    path.chmod(0o755)
    return path
