//! Completion scripts and man pages, made from the command line's definition.

use std::io::Write;

use cavalcade::output::Folder;
use clap::CommandFactory;

use crate::arguments::{Arguments, Completions, Man};
use crate::failure::Failure;
use crate::output::print;

/// `cavalcade completions`.
///
/// # Errors
/// Where standard output cannot be written.
pub(crate) fn run(options: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), "cavalcade", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// `cavalcade man`: a page for the program and one for each command.
///
/// # Errors
/// Where the folder cannot be written.
pub(crate) fn write_man_pages(options: &Man) -> Result<(), Failure> {
    let folder = Folder::create(&options.dir)?;
    let mut command = Arguments::command();
    command.build();
    write_page(&folder, command)?;
    folder.keep().map(drop)
}

/// Writes the page of `command` and those below it. Its name is that of the whole line by now: `cavalcade-trace-info`.
fn write_page(folder: &Folder, command: clap::Command) -> Result<(), Failure> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        write_page(folder, below.clone())?;
    }
    let page = clap_mangen::Man::new(command);
    let name = page.get_filename();
    let mut text = Vec::new();
    let rendered = page.render(&mut text);
    let mut file = folder.file(&name)?;
    rendered.and_then(|()| file.write_all(&text)).map_err(|error| folder.failure(&name, &error))
}
