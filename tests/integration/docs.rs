//! The documents say what the program does.

use belvedere::cli::Cli;
use clap::CommandFactory as _;

#[test]
fn operations_lists_every_variable() {
    let document = include_str!("../../docs/operations.md");
    let command = Cli::command();
    let mut variables = 0;
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let Some(variable) = argument.get_env() else { continue };
        let variable = variable.to_string_lossy();
        assert!(
            document.contains(&format!("| `{variable}` |")),
            "{variable} is missing in docs/operations.md"
        );
        variables += 1;
    }
    assert!(variables > 20, "only {variables} variables found");
}
