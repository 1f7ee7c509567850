#!/bin/sh
# Unpack the sources and compile what is not current; run on a target by deploy.yml.
#
#   sh install.sh WORKDIR CC force|keep NAME:PROGRAM:SOURCE_SHA ...
#
# Whenever something is compiled, all is unpacked anew: what a power cut left of the last
# sources is never trusted (the archive itself was compared just before).
#
# Leaves WORKDIR/src, and WORKDIR/bin/PROGRAM with PROGRAM.build beside it, of which the line
# source_sha tells next time that nothing needs to be done, if the program still has the
# sum in the line cksum (empty where there is no such command). Its line sha256 is for
# people: each system calls that command otherwise, if it has one. Prints "labctl: ..." lines;
# the compiler's messages go to stderr. Status 1: at least one workload does not compile.
set -u
LC_ALL=C
PATH=${PATH:-/bin:/usr/bin}:/sbin:/usr/sbin # sha256 is in /sbin
export LC_ALL PATH

workdir=$1
CC=$2
mode=$3
shift 3
export CC

cd "$workdir" || exit 2
mkdir -p bin || exit 2

# By this labctl ends what runs here, should it be interrupted: Ansible would leave it.
if [ -r /proc/$$/stat ]; then read -r skip skip skip skip group skip </proc/$$/stat
else group=$(ps -o pgid= -p $$)
fi
trap 'rm -f install.pgid' 0
echo $group >install.pgid || exit 2
rm -rf bin/.build.* # left by one that was ended

# "CRC SIZE" of a program: sum_of PROGRAM
sum_of() {
    # shellcheck disable=SC2046 # some pad it
    echo $(cksum <"bin/$1" 2>/dev/null)
}

# The SHA-256 of a program, by what Linux, FreeBSD, NetBSD or most others call it; the only
# word of that length in what they print: sha256_of PROGRAM
sha256_of() {
    {
        sha256sum <"bin/$1" || sha256 -q "bin/$1" || cksum -a sha256 <"bin/$1" ||
            openssl dgst -sha256 <"bin/$1"
    } 2>/dev/null | sed -n 's/.*\([0-9a-f]\{64\}\).*/\1/p'
}

# Only once: build.sh compiles the common harness on each call.
names=
for item; do
    name=${item%%:*}
    sha=${item##*:}
    program=${item#*:}
    program=${program%:*}
    if [ "$mode" != force ] && [ -x "bin/$program" ] &&
        grep -q "^source_sha=$sha\$" "bin/$program.build" 2>/dev/null &&
        grep -q "^cksum=$(sum_of "$program")\$" "bin/$program.build"; then
        continue
    fi
    rm -f "bin/$program.build"
    names="$names $name"
done
[ -n "$names" ] || exit 0

rm -rf src.new src || exit 2
mkdir src.new || exit 2
(cd src.new && tar -xf ../sources.tar) || exit 2
mv src.new src || exit 2
echo "labctl: unpacked"

# shellcheck disable=SC2086 # names are words
SOURCE_SHA=pending sh src/build.sh bin $names
status=$?
for item; do
    name=${item%%:*}
    sha=${item##*:}
    program=${item#*:}
    program=${program%:*}
    case " $names " in
    *" $name "*) ;;
    *) continue ;;
    esac
    if [ -f "bin/$program.build" ]; then
        {
            sed "s/^source_sha=.*/source_sha=$sha/" "bin/$program.build" &&
                echo "origin=compiled here" &&
                echo "sha256=$(sha256_of "$program")" &&
                echo "cksum=$(sum_of "$program")"
        } >"bin/.$program.build.new" &&
            mv -f "bin/.$program.build.new" "bin/$program.build" || exit 2
        echo "labctl: compiled $name"
    else
        echo "labctl: failed $name"
        [ $status -ne 0 ] || status=1
    fi
done
exit $status
