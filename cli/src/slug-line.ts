import { isMap, isScalar, parseDocument, stringify } from "yaml";

/** The line of a manifest that names its project. */
export const slugLine = (slug: string): string => `slug: ${stringify(slug).trimEnd()}`;

/** Whether a manifest says anything of its slug, be it that it wants a new one (`auto`). */
export const saysSlug = (text: string): boolean => parseDocument(text).has("slug");

/**
 * The manifest's text with that line below its version, every other byte as it was; null where the line cannot stand by
 * itself, as in a manifest between braces.
 */
export function withSlugLine(text: string, slug: string): string | null {
  const root = parseDocument(text).contents;
  if (!isMap(root)) return null;
  const version = root.items.find(({ key }) => isScalar(key) && key.value === "version");
  if (!isScalar(version?.key) || !isScalar(version.value)) return null;
  const keyStart = version.key.range?.[0] ?? 0;
  const lineStart = text.lastIndexOf("\n", keyStart - 1) + 1;
  const lineEnd = text.indexOf("\n", version.value.range?.[1] ?? 0);
  const line = `${text.slice(lineStart, keyStart)}${slugLine(slug)}`;
  const feed = text.includes("\r\n") ? "\r\n" : "\n";
  const above = lineEnd === -1 ? `${text}${feed}` : text.slice(0, lineEnd + 1);
  const edited = `${above}${line}${feed}${lineEnd === -1 ? "" : text.slice(lineEnd + 1)}`;
  const read = parseDocument(edited);
  return read.errors.length === 0 && read.get("slug") === slug ? edited : null;
}
