#!/bin/sh
# Build workloads: sh build.sh OUTDIR NAME ...
#
# Each NAME is a folder beside this script with a workload.yaml; of that, three keys are
# read, each on a line of its own with its list in brackets: program, sources, libraries.
# Leaves OUTDIR/PROGRAM and OUTDIR/PROGRAM.build (key=value: how it was built), whole or
# not at all.
#
# Environment: CC (cc), CFLAGS (-O2), LDFLAGS, SOURCE_SHA (recorded as it is), LINK:
#   auto     static, because fork and exec of it cost less in an emulated guest; dynamic
#            where static does not link or does not run (the default)
#   static, dynamic: only that
#
# Status: 0 all built; 1 at least one not (the compiler's messages are on stderr); 2 usage.

set -u
LC_ALL=C
export LC_ALL

CC=${CC:-cc}
CFLAGS=${CFLAGS:--O2}
LDFLAGS=${LDFLAGS:-}
LINK=${LINK:-auto}
here=$(cd "$(dirname "$0")" && pwd) || exit 2
fixed="-std=c99 -Wall -Wextra"

usage() {
    echo "build.sh: $1" >&2
    echo "usage: sh build.sh OUTDIR NAME ..." >&2
    exit 2
}

[ $# -ge 2 ] || usage "give an output directory and at least one workload"
case $LINK in
auto | static | dynamic) ;;
*) usage "LINK is '$LINK', not auto, static or dynamic" ;;
esac
out=$1
shift
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd) || exit 1
work=$out/.build.$$
trap 'rm -rf "$work"' 0
trap 'exit 1' 1 2 15
mkdir "$work" || exit 1

# The value of a key of the manifest, brackets, commas, quotes and comment taken away.
manifest_key() {
    sed -n -e "s/^$1:[[:space:]]*//p" "$2" |
        sed -e 's/[[:space:]]#.*$//' -e 's/[][,"]/ /g' -e "s/'/ /g"
}

# Compile a source file to an object: compile SOURCE OBJECT
compile() {
    # shellcheck disable=SC2086 # options are words
    $CC $CFLAGS $fixed "-I$here/harness" -c -o "$2" "$1"
}

# Link all objects of a program: link MODE-FLAG LIBRARIES
link() {
    # shellcheck disable=SC2086 # options are words
    $CC $CFLAGS $1 -o "$work/program" "$work"/harness/*.o "$work"/own/*.o $LDFLAGS $2
}

# Does it run here? 69: it does, and says that this system lacks what it measures.
runs() {
    "$work/program" --limit 20 2 64 >/dev/null 2>&1
    status=$?
    [ $status -eq 0 ] || [ $status -eq 69 ]
}

# Sets linked to what was achieved: link_program LIBRARIES
link_program() {
    if [ "$LINK" = static ]; then
        linked=static
        link -static "$1"
        return
    fi
    linked=static
    if [ "$LINK" = auto ] && link -static "$1" 2>/dev/null && runs; then
        return 0
    fi
    linked=dynamic
    link "" "$1"
}

record() {
    # shellcheck disable=SC2086 # CC may have arguments
    compiler=$($CC --version 2>/dev/null | sed 1q)
    # shellcheck disable=SC2086
    [ -n "$compiler" ] || compiler=$($CC -v 2>&1 | sed 1q)
    echo "compiler=$compiler"
    echo "flags=$CFLAGS -std=c99 -Wall -Wextra${LDFLAGS:+ $LDFLAGS}"
    echo "link=$linked"
    echo "source_sha=${SOURCE_SHA:-}"
    echo "built=$(date -u +%Y-%m-%dT%H:%M:%SZ)"
}

build() {
    manifest=$here/$1/workload.yaml
    if [ ! -f "$manifest" ]; then
        echo "build.sh: there is no workload $1 ($manifest)" >&2
        return 1
    fi
    program=$(manifest_key program "$manifest" | tr -d ' \t')
    sources=$(manifest_key sources "$manifest")
    libraries=$(manifest_key libraries "$manifest")
    case $program,$sources in
    , | *, | ,* | */*,*)
        echo "build.sh: $manifest: program: NAME and sources: [FILE, ...] are needed," \
            "each on one line" >&2
        return 1
        ;;
    esac
    rm -rf "$work/own"
    mkdir "$work/own" || return 1
    for source in $sources; do
        compile "$here/$1/$source" "$work/own/$(basename "$source" .c).o" || return 1
    done
    link_program "$libraries" || return 1
    record >"$work/program.build" || return 1
    rm -f "$out/$program.build"
    mv -f "$work/program" "$out/$program" && mv -f "$work/program.build" "$out/$program.build"
}

mkdir "$work/harness" || exit 1
for source in "$here"/harness/*.c; do
    compile "$source" "$work/harness/$(basename "$source" .c).o" || {
        echo "build.sh: cannot build the harness" >&2
        exit 1
    }
done
failed=0
for name; do
    build "$name" || {
        echo "build.sh: cannot build $name" >&2
        failed=1
    }
done
exit $failed
