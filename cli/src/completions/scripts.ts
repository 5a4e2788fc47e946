import { completeWord } from "./word.ts";

export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

/** A script per shell. Each asks the program itself what may come next, so it stays true when the program is updated. */
const scripts: Readonly<Record<Shell, string>> = {
  bash: `# bash completion for svc
_svc() {
  local IFS=$'\\n'
  COMPREPLY=($(svc ${completeWord} "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _svc svc
`,
  zsh: `#compdef svc
_svc() {
  local line
  local -a candidates
  for line in "\${(@f)$(svc ${completeWord} "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  if (( \${#candidates} )); then _describe svc candidates; else _files; fi
}
if [[ $funcstack[1] == _svc ]]; then _svc "$@"; else compdef _svc svc; fi
`,
  fish: `# fish completion for svc
complete -c svc -f -a '(svc ${completeWord} (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
complete -c svc -l file -r -F
complete -c svc -l manifest -r -F
`,
};

export const scriptFor = (shell: Shell): string => scripts[shell];
