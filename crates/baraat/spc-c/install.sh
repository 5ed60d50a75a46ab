#!/bin/sh
# Installs libcavalcade_spc, its header, its pkg-config file and Python's module: install.sh PREFIX LIBRARY
# LIBRARY is what 'cargo build --release -p cavalcade-spc-c' made: target/release/libcavalcade_spc_c.so
set -eu
prefix=${1:?name the prefix, as /usr/local}
library=${2:?name the built library}
here=$(dirname "$0")
mkdir -p "$prefix/lib/pkgconfig" "$prefix/include" "$prefix/share/cavalcade"
cp "$library" "$prefix/lib/libcavalcade_spc.so.0"
ln -sf libcavalcade_spc.so.0 "$prefix/lib/libcavalcade_spc.so"
cp "$here/include/cavalcade_spc.h" "$prefix/include/"
cp "$here/python/cavalcade_spc.py" "$prefix/share/cavalcade/"
cat > "$prefix/lib/pkgconfig/cavalcade_spc.pc" <<END
prefix=$prefix
Name: cavalcade_spc
Description: SPC streams: bytes between hosts under task-ids
Version: 0.1.0
Libs: -L\${prefix}/lib -lcavalcade_spc
Cflags: -I\${prefix}/include
END
