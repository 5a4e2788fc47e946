import { clip } from "./text.ts";

/** The manifest itself: nothing for visitors. */
const manifests = new Set(["svc.yml", "svc.yaml"]);

/**
 * The path under which visitors get the file at `path` when `directory` is served; null when they do not: dot-files
 * stay out (environment files, version control), except `.well-known`.
 *
 * @param directory of the site, "" or "." for everything
 */
export function servedAs(path: string, directory: string): string | null {
  const prefix = directory === "" || directory === "." ? "" : `${directory}/`;
  if (!path.startsWith(prefix)) return null;
  const name = path.slice(prefix.length);
  if (name === "" || manifests.has(name)) return null;
  return name.split("/").every((part) => !part.startsWith(".") || part === ".well-known") ? name : null;
}

/** What cannot be right about a file that visitors get. `of` sees its name and its path in lower case. */
interface Kind {
  of(name: string, path: string): boolean;
  say(found: string, count: number): string;
  /** Whether it is right beside the first page of a directory that is published as somebody keeps it. */
  isKept?: boolean;
}

const ownFiles = new Set(
  `package.json package-lock.json npm-shrinkwrap.json pnpm-lock.yaml pnpm-workspace.yaml yarn.lock bun.lock bun.lockb
  deno.json deno.lock tsconfig.json dockerfile docker-compose.yml compose.yml composer.json composer.lock gemfile
  gemfile.lock requirements.txt pyproject.toml poetry.lock uv.lock pipfile pipfile.lock cargo.toml cargo.lock go.mod
  go.sum makefile pom.xml build.gradle`.split(/\s+/),
);
const atRoot = (path: string): boolean => !path.includes("/");
const is = (count: number): string => (count === 1 ? "is" : "are");

const kinds: readonly Kind[] = [
  {
    // A certificate of one's own is rarely meant for visitors, either.
    of: (name) =>
      /^id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?$|\.(?:pem|p12|pfx|ppk|jks|keystore|kdbx|env)$/.test(name) ||
      /^(?:[\w.-]*[._-])?(?:server|private|privkey|tls|ssl|client|ca|host|deploy)[\w-]*\.key$/.test(name) ||
      /^(?:service-?account|credentials|client_secret)[\w.-]*\.json$/.test(name),
    say: (found, count) =>
      `${found} may hold secrets, and everybody can read what is served: move ${count === 1 ? "it" : "them"} elsewhere, or leave ${count === 1 ? "it" : "them"} out with .svcignore.`,
  },
  {
    of: (name, path) => atRoot(path) && ownFiles.has(name),
    isKept: true,
    say: (found, count) =>
      `${found} ${is(count)} served: this is a project and not the site that its build leaves. Write build.command and build.output.`,
  },
  {
    of: (name, path) =>
      /\.(?:tsx|vue|svelte|astro)$/.test(name) || (/^src\//.test(path) && /\.(?:[cm]?ts|jsx)$/.test(name)),
    say: (found, count) =>
      `${found} ${is(count)} served, which browsers cannot run: name the directory with the built site in build.output.`,
  },
  {
    of: (name, path) =>
      /\.(?:php|phtml|jsp|aspx?|erb|cgi)$/.test(name) ||
      (atRoot(path) && (/\.(?:py|rb|go|rs|java|pl)$/.test(name) || /^server\.[cm]?[jt]s$/.test(name))),
    say: (found) => `${found} would be read by visitors and not run: a server is app.type: ssr.`,
  },
];

/**
 * Why a site cannot be right, one sentence each with what to write instead; none when nothing tells. A site may be
 * meant like this all the same.
 *
 * @param paths of all that visitors get, from the root of the site
 * @param isWhole whether they are all of a directory that nothing builds, and not what some build should have left
 */
export function siteDoubts(paths: Iterable<string>, { isWhole = false } = {}): string[] {
  let hasIndex = false;
  let nearest: string | null = null;
  const found = kinds.map(() => ({ first: [] as string[], count: 0 }));
  for (const path of paths) {
    const lower = path.toLowerCase();
    const name = lower.slice(lower.lastIndexOf("/") + 1);
    if (path === "index.html") hasIndex = true;
    else if (path.endsWith("/index.html") && (nearest === null || isNearer(path, nearest))) nearest = path;
    for (const [at, kind] of kinds.entries()) {
      const of = found[at];
      if (of === undefined || !kind.of(name, lower)) continue;
      of.count += 1;
      if (of.first.length < namedMax) of.first.push(clip(path, pathBytesMax));
    }
  }
  const told = kinds.flatMap((kind, at) => {
    const { first = [], count = 0 } = found[at] ?? {};
    const isMeant = kind.isKept === true && isWhole && hasIndex;
    return count === 0 || isMeant ? [] : [kind.say(listed(first, count), count)];
  });
  return hasIndex ? told : [noIndex(nearest), ...told];
}

const namedMax = 3;
const pathBytesMax = 100;

const depthOf = (path: string): number => path.split("/").length;
const isNearer = (path: string, than: string): boolean =>
  depthOf(path) < depthOf(than) || (depthOf(path) === depthOf(than) && path < than);

function noIndex(nearest: string | null): string {
  const nothing = "There is no index.html at the root of the site, so its first page is not found";
  if (nearest === null) return `${nothing}: name the directory that has it in build.output.`;
  return `${nothing}. There is one in ${clip(nearest.slice(0, -"/index.html".length), pathBytesMax)}: name that directory in build.output.`;
}

function listed(first: readonly string[], count: number): string {
  const rest = count - first.length;
  if (rest > 0) return `${first.join(", ")} and ${rest} more`;
  return first.length < 2 ? first.join("") : `${first.slice(0, -1).join(", ")} and ${first.at(-1)}`;
}
