// @pure
/** A path of a rule: `/blog/:year/*`. */
export type PathPattern =
  /** This path alone, decoded. */
  | { plain: string }
  | {
      /** Matches what comes before the splat, or all of it; its groups are named after the placeholders. */
      head: RegExp;
      hasSplat: boolean;
      /** What comes behind the splat, as it is. */
      tail: string;
      /** Of the placeholders; `splat` is that of `*`. */
      names: readonly string[];
    };

/** Values of placeholders, as they stand in the decoded path. */
export type PathValues = Readonly<Record<string, string>>;

const placeholderName = /^[A-Za-z][A-Za-z0-9_]{0,31}$/;

/**
 * `*` stands once, for anything; `:name` for a whole segment. Matching is linear in the length of the path whatever the
 * pattern is: a placeholder ends at the next slash, and behind the splat are no others.
 *
 * @returns the pattern, or what is wrong with it as a sentence
 */
export function parsePattern(text: string): PathPattern | string {
  if (!text.startsWith("/")) return `A path begins with "/": rules are about paths of this site.`;
  if (/[?#]/.test(text)) return "Rules look at the path alone: queries are not supported.";
  const decoded = decodePath(text);
  if (decoded === null) return "The path is not well encoded.";
  const [before = "", tail = "", ...more] = decoded.split("*");
  if (more.length > 0) return `"*" may be there once.`;
  if (tail.includes("/:")) return `Behind "*" there are no placeholders.`;
  const names: string[] = [];
  const segments: string[] = [];
  for (const segment of before.split("/")) {
    if (!segment.startsWith(":")) {
      segments.push(escapePattern(segment));
      continue;
    }
    const name = segment.slice(1);
    if (!placeholderName.test(name)) return `"${segment}" is no placeholder: a letter, then letters, digits and "_".`;
    if (name === "splat") return `":splat" is what "*" stands for.`;
    if (names.includes(name)) return `":${name}" may be there once.`;
    names.push(name);
    segments.push(`(?<${name}>[^/]+)`);
  }
  const hasSplat = decoded.includes("*");
  if (!hasSplat && names.length === 0) return { plain: withoutSlash(decoded) };
  const head = new RegExp(`^${segments.join("/")}${hasSplat ? "" : "/?$"}`);
  return { head, hasSplat, tail, names: hasSplat ? [...names, "splat"] : names };
}

/** Values when `path` (decoded) matches; null otherwise. A slash at the end makes no difference, and `/a/*` is also `/a`. */
export function matchPath(pattern: PathPattern, path: string): PathValues | null {
  if ("plain" in pattern) return pattern.plain === withoutSlash(path) ? {} : null;
  const { head, hasSplat, tail } = pattern;
  const found = head.exec(path) ?? (hasSplat && tail === "" ? head.exec(`${path}/`) : null);
  if (found === null || !hasSplat) return found && { ...found.groups };
  const rest = path.slice(found[0].length);
  return rest.endsWith(tail) ? { ...found.groups, splat: rest.slice(0, rest.length - tail.length) } : null;
}

const escapePattern = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");

/** The path as plain patterns have it. */
export const withoutSlash = (path: string): string => (path.endsWith("/") ? path.slice(0, -1) : path);

/** Null when it is no UTF-8 behind its percent signs. */
export function decodePath(path: string): string | null {
  try {
    return decodeURIComponent(path);
  } catch {
    return null;
  }
}

const placeholder = /:([A-Za-z][A-Za-z0-9_]*)/g;

/** Placeholders that `text` names. */
export const placeholdersOf = (text: string): string[] => [...text.matchAll(placeholder)].map(([, name = ""]) => name);

/** `text` with the values in it, encoded: a value adds neither a host nor a query. */
export const fill = (text: string, values: PathValues): string =>
  text.replace(placeholder, (whole, name: string) => {
    const value = Object.hasOwn(values, name) ? values[name] : undefined;
    return value === undefined ? whole : value.split("/").map(encodeURIComponent).join("/");
  });

/** Names of the placeholders of a pattern. */
export const namesOf = (pattern: PathPattern): readonly string[] => ("plain" in pattern ? [] : pattern.names);
