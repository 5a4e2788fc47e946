/** What is wrong with a line of a file of rules. */
export interface RuleProblem {
  file: "_redirects" | "_headers";
  /** From 1. */
  line: number;
  /** A sentence. */
  message: string;
}

export const ruleLimits = {
  /** Of each of the two files. */
  fileBytesMax: 256 * 1024,
  /** Rules of `_redirects` without placeholder or splat, and with. */
  plainRedirectsMax: 2000,
  patternRedirectsMax: 100,
  redirectLineMax: 1000,
  /** Paths of `_headers`, and headers of one of them. */
  headerPathsMax: 100,
  headersPerPathMax: 50,
  headerLineMax: 2000,
  problemsMax: 20,
  /** Characters of a path that is asked for, as it was sent. */
  askedPathMax: 2048,
} as const;

/** A line that says something, without the space around it. */
export interface Line {
  number: number;
  text: string;
  /** Whether it begins with space. */
  isIndented: boolean;
}

/** The lines of a file that are neither empty nor a comment. */
export const linesOf = (text: string): Line[] =>
  text
    .replace(/^\ufeff/, "")
    .split(/\r?\n/)
    .map((line, index) => ({ number: index + 1, text: line.trim(), isIndented: /^[ \t]/.test(line) }))
    .filter((line) => line.text !== "" && !line.text.startsWith("#"));
