//! Mutations: deliberate mistakes in the delivery protocol, listed in `mutations.md`. A run has to find each one.
//!
//! A mutation quotes the code that it changes, without file, line or white space, so moved code does not invalidate it.
//! All mutations are in one copy of the sources in `target/mutations`, and therefore in one build. An environment
//! variable selects one: `old` becomes `if MUTATION is 7 { new } else { old }`.

use std::{
    collections::BTreeMap,
    env, fs,
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const LIST: &str = "tests/simulation/mutations.md";
/// The folders of the mutated code.
const CODE: [&str; 2] = ["common/src/", "functions/"];
/// The copy's profile. It builds much faster than the benchmark's and runs nearly as fast.
const BUILD: [&str; 6] = ["test", "--locked", "--profile=bench", "--package=tests", "--test=simulation", "--no-run"];
/// The time limit of the search for one mutation.
const LIMIT: Duration = Duration::from_mins(5);

struct Mutation {
    name: String,
    /// The code around the change, without white space, and the range of the change in it.
    quote: String,
    changed: Range<usize>,
    new: String,
    /// The result of its last run.
    result: String,
}

/// A source file, and its content without white space, with the position of each character.
struct Source {
    path: PathBuf,
    text: String,
    dense: String,
    places: Vec<usize>,
}

/// A mutation in the code: the number of its file, and the range of the change in the file.
type Found = (usize, Range<usize>);

impl Mutation {
    /// Reads a list item: `- Name: ``code «old» code`` becomes ``new``. *result.*` Without the marks, the whole quotation
    /// is replaced.
    fn parse(item: &str) -> Self {
        let mut parts = item.split('`');
        let (name, quote) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let new = parts.nth(1).unwrap_or_else(|| panic!("no new code: {item}"));
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut quote: String = quote.split_whitespace().collect();
        let changed = match (quote.find('«'), quote.find('»')) {
            (Some(start), Some(end)) => start..end - '«'.len_utf8(),
            _ => 0..quote.len(),
        };
        quote.retain(|character| !['«', '»'].contains(&character));
        let result = parts.next().and_then(|end| end.split('*').nth(1)).unwrap_or_default().to_owned();
        Self { name: name.trim_end_matches(':').to_owned(), quote, changed, new: new.to_owned(), result }
    }

    /// The position of the quotation, which must occur exactly once in the code.
    fn find(&self, sources: &[Source]) -> Result<Found, String> {
        let all = sources.iter().enumerate();
        let all = all.flat_map(|(file, source)| source.dense.match_indices(&self.quote).map(move |(at, _)| (file, at)));
        let all: Vec<_> = all.collect();
        let [(file, at)] = all[..] else { return Err(format!("its code occurs {} times", all.len())) };
        let places = &sources[file].places;
        let (start, end) = (at + self.changed.start, at + self.changed.end);
        // An empty change is an insertion.
        let end = if start == end { places[start] } else { places[end - 1] + 1 };
        Ok((file, places[start]..end))
    }
}

/// The listed mutations, and the position of each.
fn listed(sources: &[Source]) -> Vec<(Mutation, Result<Found, String>)> {
    let list = fs::read_to_string(Path::new(ROOT).join(LIST)).expect("the list");
    let items = list.split("\n- ").skip(1).map(|item| item.split("\n\n").next().unwrap_or_default());
    let mutations = items.map(Mutation::parse);
    mutations.map(|mutation| (mutation.find(sources), mutation)).map(|(found, mutation)| (mutation, found)).collect()
}

fn output(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).current_dir(ROOT).args(arguments).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// The files of the tree, including uncommitted ones.
fn files() -> Vec<String> {
    let listed = output("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).stdout;
    let listed = String::from_utf8(listed).expect("UTF-8");
    listed.split_terminator('\0').filter(|file| Path::new(ROOT).join(file).is_file()).map(str::to_owned).collect()
}

fn sources(files: &[String]) -> Vec<Source> {
    let is_code = |file: &&String| CODE.iter().any(|folder| file.starts_with(folder)) && file.ends_with(".rs");
    let sources = files.iter().filter(is_code).map(|file| {
        let text = fs::read_to_string(Path::new(ROOT).join(file)).expect("a source");
        let (mut dense, mut places) = (String::new(), Vec::new());
        for (at, character) in text.char_indices().filter(|(_, character)| !character.is_whitespace()) {
            dense.push(character);
            places.resize(dense.len(), at);
        }
        Source { path: file.into(), text, dense, places }
    });
    sources.collect()
}

/// Applies changes to a file's text. Each change states its mutation's number and the new code. Changes may be nested.
fn mutated(text: &str, changes: Vec<(Range<usize>, usize, &str)>) -> String {
    let mut inserts = Vec::new();
    for (Range { start, end }, number, new) in changes {
        let is_statement = start == end || text[..end].ends_with(';');
        let (open, close) = if is_statement { ("", "}") } else { ("(", "})") };
        let case =
            format!("{open}if std::env::var(\"MUTATION\").is_ok_and(|it| it == \"{number}\") {{ {new} }} else {{");
        // At the same position, ends precede beginnings, and inner changes precede outer ones.
        if start == end {
            inserts.push(((start, 1, usize::MAX - end), case + close));
        } else {
            inserts.push(((start, 1, usize::MAX - end), case));
            inserts.push(((end, 0, usize::MAX - start), close.to_owned()));
        }
    }
    inserts.sort();
    let (mut result, mut from) = (String::new(), 0);
    for ((at, ..), insert) in inserts {
        result.extend([&text[from..at], insert.as_str()]);
        from = at;
    }
    result + &text[from..]
}

/// Updates the copy, with all applicable mutations. Unchanged files are not rewritten, so they are not rebuilt.
fn copy(files: &[String], sources: &[Source], mutations: &[(Mutation, Result<Found, String>)]) -> PathBuf {
    let copy = Path::new(ROOT).join("target/mutations");
    for file in files {
        let mut bytes = fs::read(Path::new(ROOT).join(file)).expect("a file");
        if let Some(at) = sources.iter().position(|source| source.path == Path::new(file)) {
            let changes = mutations.iter().enumerate().filter_map(|(number, (mutation, found))| {
                let (file, range) = found.as_ref().ok()?;
                (*file == at).then(|| (range.clone(), number, mutation.new.as_str()))
            });
            bytes = mutated(&sources[at].text, changes.collect()).into_bytes();
        }
        let there = copy.join(file);
        if fs::read(&there).ok().as_ref() != Some(&bytes) {
            fs::create_dir_all(there.parent().expect("a folder")).expect("a folder");
            fs::write(there, bytes).expect("a copy");
        }
    }
    copy
}

/// Builds the simulation in the copy, and returns its path.
fn build(copy: &Path) -> PathBuf {
    let mut cargo = Command::new("cargo");
    let cargo = cargo.current_dir(copy).args(BUILD).arg("--message-format=json-render-diagnostics");
    let cargo = cargo.env("CARGO_TARGET_DIR", copy.join("target")).env("CARGO_INCREMENTAL", "1");
    let built = cargo.env("CARGO_PROFILE_BENCH_OPT_LEVEL", "1").output().expect("Cargo runs");
    assert!(built.status.success(), "the copy does not build:\n{}", String::from_utf8_lossy(&built.stderr));
    let lines = str::from_utf8(&built.stdout).expect("UTF-8").lines();
    // Cargo also builds the package's programs, and any of them may be the last.
    let made = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut made = made.filter(|line| line["target"]["name"] == "simulation");
    made.find_map(|line| line["executable"].as_str().map(PathBuf::from)).expect("an executable")
}

/// Runs the worlds with a mutation. Returns the world that found it. `last` is the result of its last run.
fn search(simulation: &Path, copy: &Path, number: Option<usize>, last: &str) -> Result<String, String> {
    let log = copy.join("target/found");
    let mut run = Command::new(simulation);
    run.current_dir(copy.join("tests")).args(["--ignored", "--exact", "mutated", "--nocapture"]);
    run.env("MUTATION", number.map_or_else(String::new, |number| number.to_string())).env("LAST", last);
    run.stdout(fs::File::create(&log).expect("a file")).stderr(Stdio::null());
    let (mut child, end) = (run.spawn().expect("it starts"), Instant::now() + LIMIT);
    while Instant::now() < end && child.try_wait().expect("a child").is_none() {
        sleep(Duration::from_millis(20));
    }
    let is_over = child.try_wait().expect("a child").is_some();
    child.kill().expect("it ends");
    child.wait().expect("it ends");
    let log = fs::read_to_string(log).expect("a log");
    match log.lines().find_map(|line| line.strip_prefix("found: ")) {
        Some(found) => Ok(found.to_owned()),
        None if is_over => Err("not found".to_owned()),
        None => Err(format!("not found within {} s", LIMIT.as_secs())),
    }
}

/// The result of a mutation that was not run since its last change, or since the last full run began.
const NOT_RUN: &str = "not run in this code";

/// Writes results, each by the name of its mutation, into the list, and counts those in the list.
fn write(results: &BTreeMap<&str, &str>) {
    let path = Path::new(ROOT).join(LIST);
    let list = fs::read_to_string(&path).expect("the list");
    let mut items: Vec<_> = list.split("\n- ").map(str::to_owned).collect();
    let (mut missed, mut not_run) = (0, 0);
    for item in items.iter_mut().skip(1) {
        let Mutation { name, result, .. } = Mutation::parse(item);
        let result = results.get(name.as_str()).copied().unwrap_or(result.trim_end_matches('.'));
        not_run += usize::from(result == NOT_RUN);
        missed += usize::from(result != NOT_RUN && result.starts_with("not "));
        let (old, rest) = item.split_once("\n\n").unwrap_or((item, ""));
        let (code, _) = old.rsplit_once('`').expect("code");
        let end = if rest.is_empty() { "" } else { "\n\n" };
        *item = format!("{code}`.\n  *{result}.*{end}{rest}");
    }
    let commit = String::from_utf8(output("git", &["rev-parse", "--short", "HEAD"]).stdout).expect("UTF-8");
    let (commit, all) = (commit.trim(), items.len() - 1);
    let found = all - missed - not_run;
    let summary = format!(
        "Last run at commit {commit}: of {all} mutations, {found} were found, {missed} were not, and \
         {not_run} were not run."
    );
    let is_summary = |line: &&str| line.starts_with("Last run at ");
    let old = items[0].lines().find(is_summary).expect("a summary").to_owned();
    items[0] = items[0].replace(&old, &summary);
    fs::write(path, items.join("\n- ").trim_end().to_owned() + "\n").expect("the list");
}

#[test]
#[ignore = "builds a copy; tries the mutations with ONLY in their names or results; with UPDATE_DOCS=1, writes mutations.md"]
fn each_mutation_is_found() {
    let files = files();
    let sources = sources(&files);
    let mutations = listed(&sources);
    let copy = copy(&files, &sources, &mutations);
    let simulation = build(&copy);
    assert_eq!(search(&simulation, &copy, None, ""), Err("not found".to_owned()), "without a mutation");
    let only = env::var("ONLY").unwrap_or_default();
    let writes = env::var("UPDATE_DOCS").is_ok();
    if writes && only.is_empty() {
        write(&mutations.iter().map(|(mutation, _)| (mutation.name.as_str(), NOT_RUN)).collect());
    }
    let (mut all, mut missed) = (0, 0);
    for (number, (mutation, found)) in mutations.iter().enumerate() {
        let Mutation { name, result: before, .. } = mutation;
        if !name.contains(&only) && !before.contains(&only) {
            continue;
        }
        let began = Instant::now();
        let result = found.clone().and_then(|_| search(&simulation, &copy, Some(number), before));
        all += 1;
        missed += usize::from(result.is_err());
        let result = result.unwrap_or_else(|missed| missed);
        println!("{name}: {result} ({:.0} s)", began.elapsed().as_secs_f64());
        // Written at once, so that a run that is ended early keeps its results.
        if writes {
            write(&BTreeMap::from([(name.as_str(), result.as_str())]));
        }
    }
    assert_eq!(missed, 0, "of {all} mutations");
}

/// A mutation whose code has since changed is skipped until the next run of the list, when it is fixed or deleted. At
/// most a tenth of the mutations may be in this state.
#[test]
fn nine_of_ten_mutations_apply_to_this_code() {
    let mutations = listed(&sources(&files()));
    let stale = mutations.iter().filter_map(|(mutation, found)| Some((&mutation.name, found.as_ref().err()?)));
    let stale: Vec<_> = stale.collect();
    println!("{stale:#?}");
    assert!(stale.len() * 10 <= mutations.len(), "{} of {}: {stale:#?}", stale.len(), mutations.len());
}
