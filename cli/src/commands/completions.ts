import { argument, command } from "../command.ts";
import { scriptFor, shells } from "../completions/scripts.ts";

export const completions = command({
  name: "completions",
  summary: "Print a script that lets your shell complete svc commands",
  details: [
    "bash: svc completions bash > ~/.local/share/bash-completion/completions/svc",
    "zsh:  svc completions zsh > a directory of $fpath, as _svc; or: source <(svc completions zsh)",
    "fish: svc completions fish > ~/.config/fish/completions/svc.fish",
  ].join("\n"),
  arguments: { shell: argument.choice("shell", "Which shell", shells) },
  examples: ["svc completions bash", "svc completions zsh"],
  run: async (_context, { shell }) => ({ shell, script: scriptFor(shell) }),
  render: ({ shell }) => scriptFor(shell),
});
