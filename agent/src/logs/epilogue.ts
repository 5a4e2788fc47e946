/** What npm says after a script of a workspace failed: which one it was, and nothing of why. */
const scriptFailed = /^Lifecycle script `.*` failed with error:$/;
const scriptFacts = /^(?:code|path|workspace|location|command)\b/;
const fromNpm = /^npm (?:error|ERR!) ?(.*)$/;

/** What package managers and runners add once a program has failed, whatever it was. */
const epilogues: readonly RegExp[] = [
  /^npm (?:error|ERR!) (?:A complete log of this run|For a full report see:|\/\S+\/_logs\/)/,
  /^npm (?:notice|warn config|warn Unknown|WARN config)\b/,
  /^\s?ELIFECYCLE\s/,
  /^\s?WARN\s+Local package\.json exists, but node_modules missing/,
  /^error Command failed with exit code \d+\.$/,
  /^error Command failed with signal "\w+"\.$/,
  /^info Visit https:\/\/yarnpkg\.com\//,
  /^error: script ".*" (?:exited with code|was terminated by signal) /,
  /^➤ YN0000: (?:└ Completed|· Failed with errors)/,
  /^\(Use `node --trace-uncaught \.\.\.` to show where the exception was thrown\)$/,
];

/**
 * The lines without what package managers say after somebody else's error, and without npm's manual, which it prints
 * behind its own. All of them where nothing would be left.
 */
export function withoutEpilogue(lines: readonly string[]): string[] {
  const kept: string[] = [];
  let skips: RegExp | null = null;
  for (const line of lines) {
    const said = fromNpm.exec(line)?.[1];
    if (said === undefined) skips = null;
    else if (skips?.test(said)) continue;
    else if (scriptFailed.test(said)) {
      skips = scriptFacts;
      continue;
    } else if (said === "Usage:") {
      // It follows a sentence on what the command is for, and goes on to the end.
      skips = /^/;
      dropParagraph(kept);
      continue;
    } else skips = null;
    if (!epilogues.some((epilogue) => epilogue.test(line))) kept.push(line);
  }
  while (isEmpty(kept.at(-1))) kept.pop();
  return kept.length === 0 ? [...lines] : kept;
}

const isEmpty = (line: string | undefined): boolean => line !== undefined && /^(?:npm (?:error|ERR!))?\s*$/.test(line);

/** Takes the last paragraph off, with the empty lines around it. */
function dropParagraph(lines: string[]): void {
  while (isEmpty(lines.at(-1))) lines.pop();
  while (lines.length > 0 && !isEmpty(lines.at(-1))) lines.pop();
  while (isEmpty(lines.at(-1))) lines.pop();
}
