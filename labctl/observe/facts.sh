# Prints what this machine is, as key=value lines between two markers.
#
# POSIX sh only, for dash, bash, busybox ash and the sh of FreeBSD 9 and NetBSD 6.
# On an emulated guest a fork costs some 20 ms, so files of /proc and /sys are read
# by builtins (read, case, expansions), never by cat or grep. What is missing is not
# printed; nothing that is missing makes the script fail. Judging what the values
# mean (is this a guest?) is left to facts.py. Comment lines are removed before
# the script is sent.

PATH=${PATH:-/bin:/usr/bin}:/sbin:/usr/sbin:/bin:/usr/bin
LC_ALL=C
export PATH LC_ALL
exec </dev/null 2>/dev/null
nl='
'

# say KEY VALUE: one line; the lines of a longer value are joined by " | ".
say() {
    text=$2
    while :; do
        case $text in
        *"$nl"*)
            rest=${text#*$nl}
            text=${text%%$nl*}
            text="$text | $rest"
            ;;
        *) break ;;
        esac
    done
    printf '%s=%s\n' "$1" "$text"
}

# slurp KEY FILE...: the first line of the first file that can be read.
slurp() {
    slurp_key=$1
    shift
    for path in "$@"; do
        [ -f "$path" ] && [ -r "$path" ] || continue
        value=
        { read -r value || [ -n "$value" ]; } <"$path" || continue
        say "$slurp_key" "$value"
        return
    done
}

# number TEXT: whether it is a plain count.
number() {
    case $1 in
    '' | *[!0-9]*) return 1 ;;
    esac
}

linux_identity() {
    slurp kernel_version /proc/sys/kernel/version
    slurp hostname /proc/sys/kernel/hostname
    slurp cmdline /proc/cmdline
    slurp boot_id /proc/sys/kernel/random/boot_id
    slurp tainted /proc/sys/kernel/tainted
    for path in /etc/os-release /usr/lib/os-release; do
        [ -r "$path" ] || continue
        while read -r line; do
            case $line in
            PRETTY_NAME=*) say os_release "${line#PRETTY_NAME=}" ;;
            esac
        done <"$path"
        break
    done
}

linux_cpu() {
    seen=
    [ -r /proc/cpuinfo ] && while read -r line; do
        value=${line#*:}
        value=${value# }
        case $line in
        'model name'* | 'cpu	'*': POWER'*) seen=1 && say cpu_model "$value" ;;
        'flags	'* | Features*) seen=1 && say cpu_flags "$value" ;;
        microcode*) say cpu_microcode "$value" ;;
        siblings*) say threads_per_socket "$value" ;;
        'cpu cores'*) say cores_per_socket "$value" ;;
        'CPU implementer'*) say cpu_implementer "$value" ;;
        'CPU part'*) seen=1 && say cpu_part "$value" ;;
        'cpu MHz'*) say cpu_mhz "$value" ;;
        '') [ -n "$seen" ] && break ;;
        esac
    done </proc/cpuinfo
    cpu=/sys/devices/system/cpu
    slurp cpus_online_list $cpu/online
    slurp cpus_possible_list $cpu/possible
    slurp isolated $cpu/isolated
    slurp nohz_full $cpu/nohz_full
    slurp smt $cpu/smt/control
    slurp smt_active $cpu/smt/active
    slurp no_turbo $cpu/intel_pstate/no_turbo
    slurp boost $cpu/cpufreq/boost $cpu/cpu0/cpufreq/boost
    slurp cpufreq_driver $cpu/cpu0/cpufreq/scaling_driver
    slurp cpuidle_driver $cpu/cpuidle/current_driver
    slurp cpuidle_governor $cpu/cpuidle/current_governor $cpu/cpuidle/current_governor_ro
    slurp numa_nodes_list /sys/devices/system/node/online
    for path in $cpu/vulnerabilities/*; do
        slurp "mitigations.${path##*/}" "$path"
    done
    governors=
    for path in $cpu/cpu[0-9]*/cpufreq/scaling_governor; do
        [ -r "$path" ] && read -r value <"$path" || continue
        case " $governors " in
        *" $value "*) ;;
        *) governors="${governors:+$governors }$value" ;;
        esac
    done
    [ -n "$governors" ] && say governor "$governors"
    throttled=
    for path in $cpu/cpu[0-9]*/thermal_throttle/*_throttle_count; do
        [ -r "$path" ] && read -r value <"$path" && number "$value" || continue
        throttled=$((${throttled:-0} + value))
    done
    [ -n "$throttled" ] && say throttle_count "$throttled"
}

linux_kernel_settings() {
    clock=/sys/devices/system/clocksource/clocksource0
    slurp clocksource $clock/current_clocksource
    slurp clocksource_available $clock/available_clocksource
    slurp aslr /proc/sys/kernel/randomize_va_space
    slurp thp /sys/kernel/mm/transparent_hugepage/enabled
    slurp preempt /sys/kernel/debug/sched/preempt
    slurp numa_balancing /proc/sys/kernel/numa_balancing
    slurp realtime /sys/kernel/realtime
    for path in /sys/module/kvm/parameters/halt_poll_ns*; do
        slurp "kvm.${path##*/}" "$path"
    done
    for name in ept ple_gap ple_window enable_apicv npt avic pause_filter_count nested; do
        slurp "kvm.$name" "/sys/module/kvm_intel/parameters/$name" \
            "/sys/module/kvm_amd/parameters/$name"
    done
    slurp guest_halt_poll_ns /sys/module/haltpoll/parameters/guest_halt_poll_ns
    for path in /run/irqbalance/*.sock /run/irqbalance.pid; do
        [ -e "$path" ] && say irqbalance yes && break
    done
}

linux_hypervisor() {
    slurp evidence.xen_type /sys/hypervisor/type
    for name in sys_vendor product_name bios_vendor board_vendor; do
        slurp "evidence.$name" "/sys/class/dmi/id/$name"
    done
    slurp evidence.dt_hypervisor /proc/device-tree/hypervisor/compatible
    slurp evidence.dt_compatible /proc/device-tree/compatible
    # A binary table; only the OEM's name in its first bytes is of use.
    if [ -r /sys/firmware/acpi/tables/FACP ]; then
        value=
        read -r value </sys/firmware/acpi/tables/FACP
        for name in FIRECK BOCHS VBOX VRTUAL BHYVE CLOUDH Xen; do
            case $value in *"$name"*) say evidence.acpi_oem "$name" ;; esac
        done
    fi
    [ -r /proc/sysinfo ] && while read -r line; do
        case $line in
        VM00*'Control Program:'*) say evidence.control_program "${line#*:}" ;;
        esac
    done </proc/sysinfo
    container=none
    if [ -r /run/systemd/container ]; then
        read -r container </run/systemd/container
    elif [ -e /run/.containerenv ]; then
        container=podman
    elif [ -e /.dockerenv ]; then
        container=docker
    elif [ -d /proc/vz ] && [ ! -d /proc/bc ]; then
        container=openvz
    elif [ -r /proc/1/cgroup ]; then
        while read -r line; do
            case $line in
            */docker/*) container=docker ;;
            */kubepods*) container=kubernetes ;;
            */lxc/*) container=lxc ;;
            esac
        done </proc/1/cgroup
    fi
    say container "$container"
}

linux_limits() {
    while read -r line; do
        case $line in
        Cpus_allowed_list:*) say cpus_allowed_list "${line##*[!0-9,-]}" && break ;;
        esac
    done </proc/self/status
    # cgroup 2: the nearest limit on the way up; cgroup 1: the one that is mounted here.
    group=
    [ -r /proc/self/cgroup ] && while read -r line; do
        case $line in 0::*) group=${line#0::} ;; esac
    done </proc/self/cgroup
    group=${group%/}
    while :; do
        if [ -r "/sys/fs/cgroup$group/cpu.max" ]; then
            read -r quota period <"/sys/fs/cgroup$group/cpu.max"
            [ "$quota" != max ] && say cpu_quota "$quota/$period" && break
        fi
        [ -n "$group" ] || break
        group=${group%/*}
    done
    slurp cpu_quota_us /sys/fs/cgroup/cpu/cpu.cfs_quota_us
    slurp cpu_period_us /sys/fs/cgroup/cpu/cpu.cfs_period_us
}

linux_now() {
    [ -r /proc/meminfo ] && read -r _ value _ </proc/meminfo && say memory_kib "$value"
    [ -r /proc/uptime ] && read -r value _ </proc/uptime && say uptime_s "$value"
    slurp loadavg /proc/loadavg
    slurp cpu_ticks /proc/stat
    hottest=
    for path in /sys/class/thermal/thermal_zone*/temp; do
        [ -r "$path" ] && read -r value <"$path" && number "$value" || continue
        [ "$value" -gt "${hottest:-0}" ] && hottest=$value
    done
    [ -n "$hottest" ] && say temperature_mc "$hottest"
    for path in /sys/class/power_supply/*; do
        [ -r "$path/type" ] && read -r value <"$path/type" || continue
        [ "$value" = Mains ] && slurp mains_online "$path/online"
    done
    [ -r /proc/self/smaps ] && while read -r line value _; do
        [ "$line" = KernelPageSize: ] && say page_kib "$value" && break
    done </proc/self/smaps
    # One column a CPU, one read(2) a byte: only worth it on a small machine.
    [ -r /sys/devices/system/cpu/online ] && read -r value </sys/devices/system/cpu/online
    case $value in
    [0-9] | [0-9]-[0-9] | [0-9]-1[0-5]) ;;
    *) return ;;
    esac
    [ -r /proc/interrupts ] && while read -r label line; do
        case $label in
        RES: | CAL: | IPI*:)
            total=0
            set -f
            for value in $line; do
                number "$value" || break
                total=$((total + value))
            done
            set +f
            say "interrupts.${label%:}" "$total"
            ;;
        esac
    done </proc/interrupts
}

linux_libc() {
    value=$(getconf GNU_LIBC_VERSION) && [ -n "$value" ] && say libc "$value" && return
    for path in /lib/ld-musl-*.so.1; do
        [ -x "$path" ] && value=$("$path" 2>&1)
        case $value in
        *Version*)
            value=${value#*Version }
            value=${value%%$nl*}
            say libc "musl $value"
            ;;
        esac
    done
}

# sysctl_as KEY NAME...: the first of the names that the kernel knows.
sysctl_as() {
    sysctl_key=$1
    shift
    for name in "$@"; do
        value=$(sysctl -n "$name") && [ -n "$value" ] && say "$sysctl_key" "$value" && return
    done
}

# What the boot loader of FreeBSD was told to set, and nothing of what it found.
kernel_tunables() {
    found=
    kenv | {
        while IFS= read -r line; do
            case $line in
            kern.* | hw.* | vm.* | machdep.* | debug.*) found="$found${found:+$nl}$line" ;;
            esac
        done
        [ -n "$found" ] && say kernel_tunables "$found"
    }
}

bsd() {
    sysctl_as kernel_version kern.version
    sysctl_as hostname kern.hostname
    sysctl_as boot_id kern.boot_id
    sysctl_as boottime kern.boottime
    sysctl_as cpu_model machdep.cpu_brand hw.model
    sysctl_as cpus_online hw.ncpuonline hw.ncpu
    sysctl_as cpus_possible kern.smp.maxcpus hw.ncpu
    sysctl_as memory_bytes hw.physmem64 hw.physmem
    sysctl_as page_bytes hw.pagesize
    sysctl_as clocksource kern.timecounter.hardware
    sysctl_as clocksource_available kern.timecounter.choice
    sysctl_as clockrate kern.clockrate
    sysctl_as bsd_loadavg vm.loadavg
    sysctl_as bsd_ticks kern.cp_time
    if [ "$system" = NetBSD ]; then
        sysctl_as evidence.sys_vendor machdep.dmi.system-vendor
        sysctl_as evidence.product_name machdep.dmi.system-product
        sysctl_as evidence.bios_vendor machdep.dmi.bios-vendor
        sysctl_as evidence.vm_guest machdep.hypervisor
        sysctl_as aslr security.pax.aslr.enabled security.pax.aslr.global
        sysctl_as mitigations.spectre_v2 machdep.spectre_v2.method
        sysctl_as mitigations.meltdown machdep.svs.enabled
    else
        sysctl_as evidence.vm_guest kern.vm_guest
        kernel_tunables
        for name in maker product; do
            value=$(kenv -q "smbios.system.$name") && [ -n "$value" ] &&
                say "evidence.smbios_$name" "$value"
        done
        value=$(kenv -q smbios.bios.vendor) && [ -n "$value" ] &&
            say evidence.bios_vendor "$value"
        sysctl_as jailed security.jail.jailed
        sysctl_as scheduler kern.sched.name
        sysctl_as tsc_invariant kern.timecounter.invariant_tsc
        sysctl_as tsc_smp kern.timecounter.smp_tsc
        sysctl_as smt machdep.hyperthreading_allowed
        sysctl_as aslr kern.elf64.aslr.enable
        sysctl_as mitigations.pti vm.pmap.pti
        sysctl_as mitigations.ibrs hw.ibrs_active
    fi
    lines=0
    [ -r /var/run/dmesg.boot ] && while read -r line && [ $lines -lt 200 ]; do
        lines=$((lines + 1))
        case $line in
        Features2=* | *': features1'* | *': features 0x'*) say evidence.cpu_features "$line" && break ;;
        esac
    done </var/run/dmesg.boot
    for path in /lib/libc.so.*; do
        [ -f "$path" ] && value="$system ${path##*/}"
    done
    case $value in *libc.so*) say libc "$value" ;; esac
}

compiler() {
    for name in cc gcc clang; do
        value=$("$name" --version) && [ -n "$value" ] && break
    done
    [ -n "$value" ] || return
    first=${value%%$nl*}
    say compiler "$first"
    # clang names its target in the same output; gcc has to be asked again.
    case $value in
    *'Target: '*)
        value=${value#*Target: }
        value=${value%%$nl*}
        ;;
    *) value=$("$name" -dumpmachine) || return ;;
    esac
    say compiler_target "$value"
}

say labctl_facts begin
value=$(uname -srm)
system=${value%% *}
arch=${value##* }
release=${value#* }
say system "$system"
say kernel "${release% *}"
say arch "$arch"
say clock_epoch_s "$(date +%s)"
case $system in
Linux)
    linux_identity
    linux_cpu
    linux_kernel_settings
    linux_hypervisor
    linux_limits
    linux_now
    linux_libc
    ;;
*) bsd ;;
esac
[ "$compiler_wanted" = no ] || compiler
say labctl_facts end
exit 0
