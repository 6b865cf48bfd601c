# conf.sh MODE KCONFIG CONFIG [ALLCONFIG]: values of ALLCONFIG (or, for olddefconfig, of CONFIG), else defaults.
# What KCONFIG does not know is dropped without a word, as kconfig does.
mode=$1 kconfig=$2 out=$3 given=${4:-/dev/null}
test "$mode" = olddefconfig && given=$out
awk -v mode="$mode" '
	FILENAME == ARGV[1] {
		if (match($0, /^CONFIG_[A-Z0-9_]*=/)) { n = substr($0, 1, RLENGTH - 1); v[n] = substr($0, RLENGTH + 1) }
		else if ($0 ~ /^# CONFIG_.* is not set$/) v[$2] = "n"
		next
	}
	$1 == "config" { name = "CONFIG_" $2; order[++count] = name; standard[name] = "n" }
	$1 == "default" { standard[name] = $2 }
	$1 == "depends" { needs[name] = "CONFIG_" $2 }
	END {
		print "#\n# Toy/x86 Kernel Configuration\n#"
		for (i = 1; i <= count; i++) {
			name = order[i]
			value = name in v ? v[name] : (mode == "allnoconfig" ? "n" : standard[name])
			if (name in needs && got[needs[name]] != "y") continue
			got[name] = value
			print value == "n" ? "# " name " is not set" : name "=" value
		}
	}
' "$given" "$kconfig" > "$out.tmp" && mv "$out.tmp" "$out"
