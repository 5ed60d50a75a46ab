#!/bin/sh
# rustdoc with its JSON, which the stable compiler has behind this switch. A switch for all of cargo would build all again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
