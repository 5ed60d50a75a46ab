#!/bin/sh
# Runs Baraat's testbed live and writes the lab's JSON, a file for each run: measure.sh PROGRAM FOLDER
# As root on Linux with iproute2; chrt gives the lab priority over other work of the machine.
set -eu
program=${1:?name the program, as target/release/cavalcade}
out=${2:?name the folder for the runs}
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
mkdir -p "$out"
# Fig 7: n requests at once, 400 KB from each of three servers of one rack.
for n in 1 2 4 8; do
    "$program" trace generate "tasks:tasks=$n,flows=3,ports=4,smallest=400KB,largest=400KB" --out "$here/fig07-$n.txt"
    for run in 01 02 03 04 05 06 07 08 09 10; do
        chrt -f 10 "$program" lab "$here/fig07-$n.txt" --fabric bigswitch:ports=4 --rate 50Mbps --round-trip 2ms \
            --policies tcp,rcp,spc --json > "$out/fig07-$n-$run.json"
    done
done
# Table 3: four clients in the first of five racks, each fetches 800 KB from three servers of the others, at half load. The tasks of the
# paper at 50 Mbps, once; and a fifth of them at 20 Mbps.
table3() {
    "$program" trace generate "retrieval:tasks=$2,rate=$1" --out "$here/table3.txt"
    chrt -f 10 "$program" lab "$here/table3.txt" --fabric tree:pods=1,racks=5,hosts=4 --rate "$1" --round-trip "$3" \
        --counters 4 --policies "$4" --json > "$out/table3-$1-$5.json"
    rm "$here/table3.txt"
}
table3 50Mbps 1000 2ms tcp,rcp,spc 01
for run in 01 02 03 04 05 06 07 08 09 10; do
    table3 20Mbps 200 4ms rcp,spc "$run"
done
# The same through both carriers of switches: the process, and XDP programs, which know no RCP.
for n in 1 2 4 8; do
    for run in 01 02 03 04 05 06 07 08 09 10; do
        chrt -f 10 "$program" lab "$here/fig07-$n.txt" --fabric bigswitch:ports=4 --rate 50Mbps --round-trip 2ms \
            --policies tcp,rcp,spc --carrier process,xdp --json > "$out/carriers-fig07-$n-$run.json"
    done
done
"$program" trace generate "retrieval:tasks=200,rate=20Mbps" --out "$here/table3.txt"
for run in 01 02 03 04 05; do
    chrt -f 10 "$program" lab "$here/table3.txt" --fabric tree:pods=1,racks=5,hosts=4 --rate 20Mbps --round-trip 4ms \
        --counters 4 --policies rcp,spc --carrier process,xdp --json > "$out/carriers-table3-20Mbps-$run.json"
done
rm "$here/table3.txt"
