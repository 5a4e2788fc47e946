import { NAMESPACE_ARG } from "./dockerfile.ts";

/** A Dockerfile asks for something that builds here may not do. */
export type Rewritten = { text: string } | { refuse: string };

const OWN_SYNTAX = /^docker(?:\.io)?\/dockerfile(?::1(?:\.\d+){0,2}(?:-labs)?)?$/;

/**
 * Makes a user's Dockerfile safe to build beside others: its cache mounts and layers are kept to one
 * namespace, and the parser is ours. Lines keep their meaning; their number may change.
 */
export function rewriteDockerfile(text: string, cacheNamespace: string): Rewritten {
  const source = text.replace(/^\ufeff/, "").split(/\r?\n/);
  const syntax = directive(source, "syntax");
  if (syntax !== null && !OWN_SYNTAX.test(syntax)) {
    return {
      refuse: `The Dockerfile names the syntax ${JSON.stringify(syntax.slice(0, 100))}, which is not available.`,
    };
  }
  const escapeCharacter = directive(source, "escape") ?? "\\";
  const result: string[] = [];
  let heredocs: string[] = [];
  let continues = false;
  for (const line of source) {
    if (heredocs.length > 0) {
      result.push(line);
      if (line.replace(/^\t+/, "") === heredocs[0]) heredocs = heredocs.slice(1);
      continue;
    }
    if (isDirective(line, "syntax")) continue;
    const isComment = /^\s*#/.test(line);
    result.push(isComment ? line : scopeCaches(line, cacheNamespace));
    if (isComment) continue;
    const opensStage = !continues && /^\s*FROM\s/i.test(line);
    continues = line.trimEnd().endsWith(escapeCharacter);
    if (!continues) heredocs = heredocNames(line);
    if (opensStage && continues) return { refuse: "A FROM instruction of the Dockerfile spans several lines." };
    // A declared argument is part of the key of every later layer of the stage, and leaves no trace in the image.
    if (opensStage) result.push(`ARG ${NAMESPACE_ARG}`);
  }
  return { text: result.join("\n") };
}

/** The value of a parser directive; only lines before anything else count. */
function directive(source: readonly string[], name: string): string | null {
  for (const line of source) {
    const match = /^\s*#\s*([a-zA-Z]+)\s*=\s*(.+?)\s*$/.exec(line);
    if (match === null) return null;
    if (match[1]?.toLowerCase() === name) return match[2] ?? "";
  }
  return null;
}

const isDirective = (line: string, name: string): boolean => directive([line], name) !== null;

/** Gives each cache mount an id of the namespace: without one its path would be the id, for everybody. */
function scopeCaches(line: string, namespace: string): string {
  return line.replaceAll(/--mount=("[^"]*"|\S+)/g, (whole, value: string) => {
    const options = value.replaceAll('"', "").split(",");
    if (!options.some((option) => option.toLowerCase() === "type=cache")) return whole;
    const optionOf = (...names: string[]): string =>
      options.find((option) => names.includes(option.split("=")[0] ?? ""))?.replace(/^[^=]*=/, "") ?? "";
    const id = optionOf("id") || optionOf("target", "dst", "destination");
    const others = options.filter((option) => !option.startsWith("id="));
    return `--mount=${[...others, `id=${namespace}-${id}`].join(",")}`;
  });
}

function heredocNames(line: string): string[] {
  if (!/^\s*(?:RUN|COPY|ADD)\s/i.test(line)) return [];
  return [...line.matchAll(/<<-?(["']?)([A-Za-z_][A-Za-z0-9_]*)\1/g)].map((match) => match[2] ?? "");
}
