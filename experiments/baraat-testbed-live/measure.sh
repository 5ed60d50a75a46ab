#!/bin/sh
# Runs Baraat's testbed live and writes the lab's JSON: measure.sh PROGRAM FOLDER. Takes some 40 minutes.
# As root on Linux with iproute2; chrt gives the lab priority over other work of the machine.
set -eu
program=${1:?name the program, as target/release/cavalcade}
out=${2:?name the folder for the runs}
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
mkdir -p "$out"
# Fig 7: n requests at once, 400 KB from each of three servers of one rack, through both carriers of switches.
for n in 1 2 4 8; do
    "$program" trace generate "tasks:tasks=$n,flows=3,ports=4,smallest=400KB,largest=400KB" --out "$here/fig07-$n.txt"
    chrt -f 10 "$program" lab "$here/fig07-$n.txt" --fabric bigswitch:ports=4 --rate 50Mbps --round-trip 2ms \
        --policies tcp,rcp,spc --carrier process,xdp --repeat 10 --json > "$out/fig07-$n.json"
done
# Other policies in the racks of Table 3, carried out over the kernel's TCP by hosts' enforcers: 40 of its tasks.
"$program" trace generate "retrieval:tasks=40,rate=20Mbps" --out "$here/policies.txt"
chrt -f 10 "$program" lab "$here/policies.txt" --fabric tree:pods=1,racks=5,hosts=4 --rate 20Mbps --round-trip 4ms \
    --enforce kernel --policies tcp,sebf,varys,aalo,dcas --carrier process --repeat 3 --json > "$out/policies.json"
# The same tasks over bridges, whose ports sort by class and mark.
chrt -f 10 "$program" lab "$here/policies.txt" --fabric tree:pods=1,racks=5,hosts=4 --rate 20Mbps --round-trip 4ms \
    --enforce kernel --policies tcp,dcas,pias,karuna,tafe --carrier bridge --repeat 3 --json > "$out/policies-bridge.json"
# Table 3: four clients in the first of five racks, each fetches 800 KB from three servers of the others, at half load: table3 NAME RATE
# ROUND-TRIP POLICIES CARRIERS RUNS. The last is more than two cores carry.
table3() {
    "$program" trace generate "retrieval:tasks=1000,rate=$2" --out "$here/$1.txt"
    chrt -f 10 "$program" lab "$here/$1.txt" --fabric tree:pods=1,racks=5,hosts=4 --rate "$2" --round-trip "$3" \
        --counters 4 --policies "$4" --carrier "$5" --repeat "$6" --json > "$out/$1.json"
}
table3 table3-tcp 20Mbps 4ms tcp process 1
table3 table3 20Mbps 4ms rcp,spc process,xdp 3
table3 table3-50Mbps 50Mbps 2ms rcp,spc process,xdp 1
