/** What the scripts of `svc completions` call with the words typed so far; no command of its own. */
export const completeWord = "__complete";
