//! Input from the terminal or standard input: secrets and confirmations.

use std::{
    env,
    io::{self, BufRead, IsTerminal, Read, Write},
};

use api::Secret;
use text::is_visible;
use zeroize::Zeroizing;

use crate::{
    browser::has_person,
    failure::{Failure, SIGINT_EXIT_CODE},
};

/// The maximum length of a secret, in bytes.
const MAX_SECRET_BYTES: u64 = 4096;
/// The minimum number of visible characters in a signing secret. The API accepts shorter ones from programs.
const MIN_SECRET_LENGTH: usize = 16;

/// Reads a line with a secret from standard input or, without echo, from a terminal. Empty if there is no line.
pub(crate) fn hidden_line(prompt: &str) -> Result<Zeroizing<String>, Failure> {
    if has_person() {
        return typed_line(prompt);
    }
    let mut text = Zeroizing::new(String::new());
    io::stdin().lock().take(MAX_SECRET_BYTES).read_line(&mut text)?;
    Ok(text)
}

/// Reads a line from a terminal without echo. At Ctrl-C, `rpassword` raises the signal before it restores the terminal:
/// without a handler, the process would end and leave the terminal without echo and Ctrl-C.
fn typed_line(prompt: &str) -> Result<Zeroizing<String>, Failure> {
    #[cfg(unix)]
    let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
    #[cfg(windows)]
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    let typed = match rpassword::prompt_password(prompt) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            return Err(Failure::interrupted("Stopped by Ctrl-C."));
        }
        // Ctrl-D
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Zeroizing::default(),
        typed => typed.map(Zeroizing::new)?,
    };
    // From now on, Ctrl-C ends the process again.
    tokio::spawn(async move {
        interrupt.recv().await;
        std::process::exit(SIGINT_EXIT_CODE.into());
    });
    Ok(typed)
}

/// Reads the signing secret from `FANFARE_SIGNING_SECRET` or, if it is not set, from standard input. Arguments are not
/// an option, because other users of the machine could see them.
pub(crate) fn signing_secret() -> Result<Secret, Failure> {
    let given = env::var("FANFARE_SIGNING_SECRET").ok().filter(|secret| !secret.is_empty()).map(Zeroizing::new);
    let text = given.map_or_else(|| hidden_line("Signing secret: "), Ok)?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(Failure::local("The signing secret is missing.")
            .hint("Pipe it into this command, or set FANFARE_SIGNING_SECRET."));
    }
    let is_padded = !secret.starts_with(is_visible) || !secret.ends_with(is_visible);
    if is_padded
        || secret.strip_prefix("whsec_").unwrap_or(secret).chars().filter(|c| is_visible(*c)).count()
            < MIN_SECRET_LENGTH
    {
        let hint = "Leave out --secret, and a random secret is generated.";
        let needs = format!(
            "The signing secret needs {MIN_SECRET_LENGTH} visible characters, not counting whsec_, without white space \
             around them."
        );
        return Err(Failure::local(needs).hint(hint));
    }
    Ok(secret.into())
}

/// Checks that a destructive command is confirmed, or that the user can be asked.
pub(crate) fn can_confirm(is_confirmed: bool) -> Result<(), Failure> {
    if is_confirmed || (has_person() && io::stderr().is_terminal()) {
        return Ok(());
    }
    Err(Failure::usage("This command needs confirmation, and standard input is not a terminal.").hint("Add --yes."))
}

/// Asks for confirmation of a destructive command. Programs have to pass `--yes` instead.
pub(crate) fn confirm(question: &str, is_confirmed: bool) -> Result<(), Failure> {
    can_confirm(is_confirmed)?;
    if is_confirmed {
        return Ok(());
    }
    let mut errors = io::stderr().lock();
    write!(errors, "{question} [y/N] ")?;
    errors.flush()?;
    let mut answer = String::new();
    io::stdin().lock().take(MAX_SECRET_BYTES).read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::local("Nothing was changed.")),
    }
}
