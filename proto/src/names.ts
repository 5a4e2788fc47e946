import type { Channel } from "./lifecycle.ts";
import { limits } from "./limits.ts";
import { reservedSlugs } from "./reserved-slugs.ts";
import { isOneLine, stripControl } from "./text.ts";

const reservedPrefixes = ["dev-", "preview-"] as const;
/** The preview of a project with such a slug would have the host of another project's pull request; see `siteLabel`. */
const pullRequestEnding = /--\d+$/;

/** In a manifest or a create request: choose a slug from the name. */
export const autoSlug = "auto";

/**
 * Why `slug` is no project's, however old the project is, as a sentence; null when it may be one's. What is reserved is
 * not asked here: a name that is reserved today was not always, and whoever had it keeps it.
 */
export function slugFormProblem(slug: string): string | null {
  const { slugLengthMin, slugLengthMax } = limits;
  if (slug.length < slugLengthMin || slug.length > slugLengthMax)
    return `A slug has ${slugLengthMin} to ${slugLengthMax} characters.`;
  if (!/^[a-z0-9-]+$/.test(slug)) return "A slug has only lower-case letters a-z, digits and hyphens.";
  if (slug.startsWith("-") || slug.endsWith("-")) return "A slug does not start or end with a hyphen.";
  return null;
}

/** Why no project can be given `slug`, as a sentence; null when one can. Whether it is free is another question. */
export function slugProblem(slug: string): string | null {
  const formProblem = slugFormProblem(slug);
  if (formProblem !== null) return formProblem;
  if (slug.startsWith("xn--")) return 'A slug does not start with "xn--".';
  const prefix = reservedPrefixes.find((reserved) => slug.startsWith(reserved));
  if (prefix !== undefined) return `Slugs that start with "${prefix}" are reserved.`;
  if (pullRequestEnding.test(slug))
    return 'Slugs that end in "--" and a number are reserved: previews of pull requests are named so.';
  if (reservedSlugs.has(slug)) return `The slug "${slug}" is reserved.`;
  return null;
}

/**
 * A valid slug made from any `name`. `suffix` (letters a-z and digits, at most 8; empty for none) is how
 * the caller makes it unique: "My Shop", "k3f9" -> "my-shop-k3f9". Randomness is the caller's.
 */
export function generateSlug(name: string, suffix = ""): string {
  const tail = suffix === "" ? "" : `-${suffix}`;
  const words = name
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
  const candidate = cut(words, tail);
  return slugProblem(candidate) === null ? candidate : cut(words === "" ? "site" : `site-${words}`, tail);
}

const cut = (words: string, tail: string): string =>
  `${words.slice(0, limits.slugLengthMax - tail.length).replace(/-$/, "")}${tail}`;

/** What a site answers to. `prNumber` only with the preview channel; null is the stable preview. */
export interface SiteAddress {
  slug: string;
  channel: Channel;
  prNumber?: number | null;
}

/** The left-most label of a site's host name. */
export function siteLabel({ slug, channel, prNumber }: SiteAddress): string {
  if (channel === "production") return slug;
  if (channel === "dev") return `dev-${slug}`;
  return prNumber === undefined || prNumber === null ? `preview-${slug}` : `preview-${slug}--${prNumber}`;
}

/** The host name of a site, without port. */
export const siteHost = (address: SiteAddress, contentDomain: string): string =>
  `${siteLabel(address)}.${contentDomain}`;

/**
 * The public URL of a site: scheme and port of `contentUrl`, whose host is the content domain
 * (`http://svc.localhost:8080` -> `http://shop.svc.localhost:8080`). No trailing slash.
 */
export function siteUrl(address: SiteAddress, contentUrl: string): string {
  const base = new URL(contentUrl);
  return `${base.protocol}//${siteHost(address, base.hostname)}${base.port === "" ? "" : `:${base.port}`}`;
}

/** Why `name` cannot name a project to people, or null. */
export function projectNameProblem(name: string): string | null {
  if (name.trim() !== name || name === "") return "A name is not empty and has no space at its ends.";
  if ([...name].length > limits.projectNameLengthMax)
    return `A name has at most ${limits.projectNameLengthMax} characters.`;
  return null;
}

/** Why `name` cannot name the person of an account, or null. */
export function accountNameProblem(name: string): string | null {
  const { accountNameLengthMax: max } = limits;
  if (name.trim() === "") return "A name is not blank.";
  if ([...name].length > max) return `A name has at most ${max} characters.`;
  return isOneLine(name) ? null : "A name is one line without control characters.";
}

/**
 * The part of `name`, as another service knows it, that can name the person of an account here; `otherwise`, which can,
 * when there is none.
 */
export function accountNameFrom(name: string, otherwise: string): string {
  const line = stripControl(name.replace(/[\s\p{Zl}\p{Zp}]+/gu, " "));
  const cut = [...line.trim()].slice(0, limits.accountNameLengthMax).join("").trim();
  return accountNameProblem(cut) === null ? cut : otherwise;
}

/** Why `branch` is not the name of a Git branch, or null. */
export function branchProblem(branch: string): string | null {
  if (branch === "" || [...branch].length > limits.branchNameLengthMax)
    return `A branch name has 1 to ${limits.branchNameLengthMax} characters.`;
  // The rules of git-check-ref-format, and no leading hyphen, which a command line would read as a flag.
  const bad =
    /[\p{Cc}\p{Cf} ~^:?*[\\]/u.test(branch) ||
    /(^[-/.])|([/.]$)|(\.\.)|(\/\/)|(@\{)|(\/\.)|(\.lock(\/|$))/.test(branch) ||
    branch === "@";
  return bad ? "That is not a Git branch name." : null;
}
