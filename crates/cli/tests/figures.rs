//! Figures for papers: `cavalcade report figure`.

mod support;

use support::Place;

#[test]
fn a_figure_is_written_as_its_name_ends() {
    let place = Place::with_trace();
    let trace = place.names().into_iter().next().expect("there is a trace");
    for (name, start) in [("a.svg", &b"<svg "[..]), ("a.PDF", b"%PDF-"), ("a.png", b"\x89PNG")] {
        let ran = place.run(&["report", "figure", "cdf", &trace, "--policies", "fair,sebf", "-o", name]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(place.read(name).starts_with(start), "{name}");
    }
}

#[test]
fn another_ending_is_refused_before_anything_is_read() {
    let place = Place::new();
    for name in ["a.jpg", "a", "a.svg.gz"] {
        let ran = place.run(&["report", "figure", "cdf", "nowhere.txt", "-o", name]);
        assert!(ran.code == 2 && ran.err.contains("end the name with .svg, .pdf or .png"), "{}", ran.err);
        assert!(ran.out.is_empty() && place.names().is_empty());
    }
}
