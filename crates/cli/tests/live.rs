//! The live system's commands: what they refuse, and that nothing is left behind.

mod support;

use support::Place;

#[test]
fn a_seed_of_faults_is_replayed_and_a_planted_bug_is_found() {
    let place = Place::new();
    let first = place.run(&["fault", "--seed", "3"]);
    assert_eq!((first.code, first.err.as_str()), (0, ""));
    assert!(first.out.ends_with("everything held\n"), "{}", first.out);
    assert_eq!(place.run(&["fault", "--seed", "3"]).out, first.out);
    let planted = place.run(&["fault", "--seeds", "50", "--plant", "two-leaders"]);
    assert_eq!(planted.code, 4);
    assert!(planted.err.contains("coordinators believe that they lead"), "{}", planted.err);
    assert_eq!(place.run(&["fault", "--plant", "gremlin"]).code, 2);
}

#[test]
fn what_cannot_work_is_refused_with_a_cure_and_leaves_nothing_behind() {
    let place = Place::new();
    let hosts = "127.0.0.1,127.0.0.2";
    let refused = [
        (vec!["up", "--hosts", hosts, "--policy", "dcas"], "cavalcade agent --policy dcas"),
        (vec!["coordinator", "--hosts", hosts, "--policy", "dclos"], "dclas"),
        (
            vec!["agent", "--hosts", hosts, "--port", "0", "--policy", "sebf"],
            "cavalcade coordinator --policy sebf",
        ),
        (vec!["agent", "--hosts", hosts, "--port", "2", "--policy", "dcas"], "count from 0"),
        (vec!["agent", "--hosts", hosts, "--port", "0"], "--coordinator"),
        (vec!["up", "--hosts", hosts, "--period", "1us"], "1ms to 60s"),
    ];
    for (arguments, cure) in refused {
        let ran = place.run(&arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(cure), "{arguments:?}: {}", ran.err);
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("some port is free");
    let at = taken.local_addr().expect("it is bound").to_string();
    let ran = place.run(&["coordinator", "--hosts", hosts, "--listen", &at]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("stop what listens there"), "{}", ran.err);
    assert!(place.names().is_empty(), "{:?}", place.names());
}
