//! The generated parts of the template and the sample events follow from the code and from the rows that people wrote.

#[test]
fn the_generated_parts_of_the_template_are_current() {
    let source = include_str!("../../../../template.yaml");
    let current = local::generated_template(source).unwrap_or_else(|error| panic!("{error:#}"));
    let line = (source.lines().zip(current.lines())).position(|(stored, current)| stored != current);
    let line = line.map_or(0, |line| line + 1);
    assert!(source == current, "template.yaml is stale from line {line}: run `cargo local template`");
}

#[test]
fn the_sample_events_of_routes_under_v1_are_current() {
    let current = local::generated_events().unwrap_or_else(|error| panic!("{error:#}"));
    for (function, current) in current {
        let path = format!("{}/../events/{function}.json", env!("CARGO_MANIFEST_DIR"));
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(stored == current, "events/{function}.json is stale: run `cargo local template`");
    }
}
