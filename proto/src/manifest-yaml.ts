import { type Document, isMap, isNode, LineCounter, parseDocument } from "yaml";
import type { z } from "zod";
import { issueText } from "./issue-text.ts";
import { knownKeys, unknownKey } from "./known-keys.ts";
import { limits } from "./limits.ts";
import { type Manifest, schemaFor } from "./manifest.ts";
import { pathProblem, tidyPath } from "./paths.ts";
import { utf8Length } from "./text.ts";

/** Something wrong in a manifest; `line` and `column` count from 1 and are absent when there is no one place. */
export interface ManifestProblem {
  message: string;
  line?: number;
  column?: number;
}

/**
 * Reads a manifest as a person wrote it. `path` is where it lies, from the repository's root.
 * Either the normalised manifest, or everything that is wrong with it.
 */
export function parseManifest(
  text: string,
  { path = "svc.yml" }: { path?: string } = {},
): { manifest: Manifest } | { problems: ManifestProblem[] } {
  if (utf8Length(text) > limits.manifestBytesMax)
    return { problems: [{ message: `The manifest is larger than ${limits.manifestBytesMax / 1024} KiB.` }] };
  const manifestPath = pathProblem(path);
  if (manifestPath !== null) return { problems: [{ message: `The manifest's path ${manifestPath}.` }] };

  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    uniqueKeys: true,
    stringKeys: true,
    version: "1.2",
    prettyErrors: false,
  });
  const faults = [...document.errors, ...document.warnings];
  if (faults.length > 0)
    return {
      problems: faults
        .slice(0, 20)
        .map((fault) => ({ message: faultMessage(fault.message), ...place(lines, fault.pos[0]) })),
    };

  const value = plainValue(document);
  if ("problem" in value) return { problems: [{ message: value.problem }] };
  const result = schemaFor(value.value).safeParse(withPath(value.value, tidyPath(path)));
  const reserved = reservedKeys(document, lines);
  if (result.success && reserved.length === 0) return { manifest: result.data };
  const issues = result.success ? [] : result.error.issues;
  return { problems: [...reserved, ...issues.flatMap((issue) => describe(issue, document, lines))].slice(0, 50) };
}

function faultMessage(message: string): string {
  if (message.startsWith("Maximum call stack")) return "The manifest is nested too deeply.";
  return message.startsWith("Source contains multiple documents") ? "The manifest is more than one document." : message;
}

function plainValue(document: Document): { value: unknown } | { problem: string } {
  if (document.contents === null) return { problem: "The manifest is empty." };
  try {
    return { value: document.toJS({ maxAliasCount: limits.manifestAliasesMax }) };
  } catch {
    return { problem: "The manifest uses too many aliases." };
  }
}

/** Where the manifest lies is known to the reader, not to the writer. */
function withPath(value: unknown, manifestPath: string): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  if ("type" in value && value.type === "ociimage") return value;
  const source = "source" in value ? value.source : {};
  if (typeof source !== "object" || source === null || Array.isArray(source)) return value;
  return { ...value, source: { ...source, manifestPath } };
}

/** Keys that exist in the normalised form but are derived, so nobody writes them. */
function reservedKeys(document: Document, lines: LineCounter): ManifestProblem[] {
  return ["manifestPath", "watchPaths"]
    .filter((key) => document.hasIn(["source", key]))
    .map((key) => ({
      message: `source.${key} is derived and cannot be written`,
      ...placeOf(document, lines, ["source"], key),
    }));
}

function describe(issue: z.core.$ZodIssue, document: Document, lines: LineCounter): ManifestProblem[] {
  const at = issue.path.filter((part) => typeof part !== "symbol");
  const dotted = at.join(".");
  if (issue.code === "unrecognized_keys")
    return issue.keys.map((key) => ({
      message: unknownKey([...at, key].join("."), key, writtenKeys(document, at)),
      ...placeOf(document, lines, at, key),
    }));
  const missing = issue.code !== "custom" && at.length > 0 && !document.hasIn(at);
  const text = missing ? "is missing" : issueText(issue);
  return [
    { message: dotted === "" ? text : `${dotted}${missing ? " " : ": "}${text}`, ...placeOf(document, lines, at) },
  ];
}

/** The keys that one may write at `path`: without the derived ones. */
const writtenKeys = (document: Document, path: readonly (string | number)[]): string[] =>
  knownKeys(schemaFor({ type: document.getIn(["type"]) }), path).filter(
    (key) => key !== "manifestPath" && key !== "watchPaths",
  );

/** Line and column of `key` in the map at `path`, else of the value at `path`, else of what is nearest above it. */
function placeOf(
  document: Document,
  lines: LineCounter,
  path: readonly (string | number)[],
  key?: string,
): { line?: number; column?: number } {
  for (let depth = path.length; depth >= 0; depth--) {
    const above = path.slice(0, depth);
    const node = depth === 0 ? document.contents : document.getIn(above, true);
    if (!isNode(node)) continue;
    if (key !== undefined && depth === path.length && isMap(node)) {
      const pair = node.items.find((item) => isNode(item.key) && String(item.key) === key);
      if (pair !== undefined && isNode(pair.key)) return place(lines, pair.key.range?.[0]);
    }
    return place(lines, node.range?.[0]);
  }
  return {};
}

function place(lines: LineCounter, offset: number | undefined): { line?: number; column?: number } {
  if (offset === undefined) return {};
  const { line, col } = lines.linePos(offset);
  return { line, column: col };
}
