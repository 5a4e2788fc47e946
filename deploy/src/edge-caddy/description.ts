// @pure

/** What the description of a Debian source package (.dsc) says. */
export interface SourceDescription {
  /** Of what it packages, without Debian's own part: 2.6.2. */
  version: string;
  /** Debian packages with the Go code that it is built of. */
  goPackages: string[];
}

/** @throws Error for a text that is no description */
export function parseDescription(text: string): SourceDescription {
  const version = /^Version: (?:\d+:)?([^\s-]+)/m.exec(text)?.[1];
  const needs = /^Build-Depends:((?:.*\n)(?:[ \t].*\n)*)/m.exec(text)?.[1];
  if (version === undefined || needs === undefined) throw new Error("this describes no source package");
  const names = needs.split(",").map((need) => /^\s*([a-z0-9.+-]+)/.exec(need)?.[1] ?? "");
  return { version, goPackages: names.filter((name) => /^golang-.+-dev$/.test(name)) };
}

/** Names of the patches of a `series` file, in their order. */
export const patchesIn = (series: string): string[] =>
  series
    .split("\n")
    .map((line) => line.replace(/#.*/, "").trim())
    .filter((line) => line !== "");
