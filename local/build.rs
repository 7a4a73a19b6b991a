//! Lists the functions. Every folder in `functions/` contains a crate of the same name, which exports `function(&Env)`.

use std::{env, error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let functions = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../functions");
    println!("cargo::rerun-if-changed={}", functions.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(functions)? {
        names.push(entry?.file_name().into_string().map_err(|name| format!("{} is not UTF-8", name.display()))?);
    }
    names.sort();
    let start =
        |name: &String| format!("    (\"{name}\", |env| Ok({}::function(env)?.into())),\n", name.replace('-', "_"));
    let table: String = names.iter().map(start).collect();
    fs::write(Path::new(&env::var("OUT_DIR")?).join("functions.rs"), format!("&[\n{table}]\n"))?;
    Ok(())
}
