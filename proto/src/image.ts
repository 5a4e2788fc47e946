import { limits } from "./limits.ts";

/** A container image reference with its defaults written out. Exactly one of `tag` and `digest` is there. */
export interface ImageReference {
  /** Lower case host, with `:port` unless it is 443. */
  registry: string;
  repository: string;
  tag?: string;
  /** `sha256:` and 64 hex digits. */
  digest?: string;
  /** The whole reference again; parsing it gives the same. */
  canonical: string;
}

const defaultRegistry = "docker.io";
/** Of the longest host name and port. What is longer is not even looked at. */
const registryLengthMax = 253 + ":65535".length;
const hostPattern = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*(?::[0-9]{1,5})?$/;
const pathPart = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const tagPattern = /^\w[\w.-]{0,127}$/;
const digestPattern = /^sha256:[a-f0-9]{64}$/;

/** Whether `text` is a SHA-256 digest as registries write it. */
export const isDigest = (text: string): boolean => digestPattern.test(text);

/** Every mistake of a reference, a sentence each, and its registry as far as that can be told. */
export interface BadReference {
  problem: string;
  registry?: string;
}

/**
 * Reads `registry/name:tag` or `registry/name@sha256:…` by Docker's grammar. Names without a registry are
 * Docker Hub's (`nginx:1` is `docker.io/library/nginx:1`). A tag or a digest has to be written, never both:
 * which of the two is meant must not be a guess. Says nothing about whether the registry may be contacted.
 */
export function parseImageReference(text: string): ImageReference | BadReference {
  if (text.length > limits.imageReferenceLengthMax)
    return { problem: `An image reference has at most ${limits.imageReferenceLengthMax} characters.` };
  if (!/^[\x21-\x7e]+$/.test(text))
    return { problem: "An image reference has letters, digits and punctuation of ASCII only, and is not empty." };

  const problems: string[] = [];
  const scheme = /^[a-z]+:\/\//i.exec(text)?.[0] ?? "";
  if (text.includes("://")) problems.push("Write the image reference without https://.");
  const [named = "", digest, ...more] = text.slice(scheme.length).split("@");
  if (more.length > 0) problems.push('An image reference has at most one "@".');
  if (digest !== undefined && !digestPattern.test(digest))
    problems.push("The digest after @ must be sha256: and 64 lower-case hex digits.");
  const { name, tag } = splitTag(named);
  const place = splitRegistry(name);
  problems.push(...place.problems);
  if (tag !== undefined && !tagPattern.test(tag))
    problems.push("The tag has 1 to 128 letters, digits, dots, hyphens and underscores.");
  if (tag !== undefined && digest !== undefined) problems.push("Write either a tag or a digest, not both.");
  if (tag === undefined && digest === undefined)
    problems.push(`Write the tag or the digest, for example ${name || "name"}:1.0.`);

  const { registry, repository } = place;
  const base = `${registry}/${repository}`;
  if (base.length > limits.imageNameLengthMax)
    problems.push(`Registry and name have at most ${limits.imageNameLengthMax} characters.`);
  if (registry === null || problems.length > 0)
    return { problem: problems.join(" "), ...(registry !== null && { registry }) };
  if (digest !== undefined) return { registry, repository, digest, canonical: `${base}@${digest}` };
  return { registry, repository, tag: tag ?? "", canonical: `${base}:${tag}` };
}

/** The same for what a Dockerfile starts from: no tag means `latest` there, and one beside a digest says nothing. */
export function parseBaseImage(text: string): ImageReference | BadReference {
  const [named = "", ...digests] = text.split("@");
  const { name, tag } = splitTag(named);
  if (digests.length === 0) return parseImageReference(tag === undefined ? `${text}:latest` : text);
  return parseImageReference(tag !== undefined && tagPattern.test(tag) ? [name, ...digests].join("@") : text);
}

/** A colon after the last slash starts the tag; one before it belongs to the registry's port. */
function splitTag(named: string): { name: string; tag?: string } {
  const colon = named.indexOf(":", named.lastIndexOf("/") + 1);
  return colon === -1 ? { name: named } : { name: named.slice(0, colon), tag: named.slice(colon + 1) };
}

/** What a name means, and what is wrong with it; a registry that is none is null. */
function splitRegistry(name: string): { registry: string | null; repository: string; problems: string[] } {
  const slash = name.indexOf("/");
  const first = slash === -1 ? "" : name.slice(0, slash);
  const named = first !== "" && (/[.:]/.test(first) || first === "localhost" || first !== first.toLowerCase());
  const registry = named ? normaliseRegistry(first) : defaultRegistry;
  const problems = registry === null ? [`"${first}" is not a registry host.`] : [];
  const path = named ? name.slice(slash + 1) : name;
  const repository = registry === defaultRegistry && !path.includes("/") ? `library/${path}` : path;
  if (!repository.split("/").every((part) => pathPart.test(part)))
    problems.push("The image name has lower-case letters and digits, joined by . _ __ - and /.");
  if (!named && /^[a-f0-9]{64}$/.test(path)) problems.push("64 hex digits alone are an image id, not a name.");
  return { registry, repository, problems };
}

/**
 * A registry's host as it is stored and compared: lower case, `:443` left out, Docker Hub under one name.
 * Null when `text` is not `host` or `host:port`.
 */
export function normaliseRegistry(text: string): string | null {
  const host = text.toLowerCase();
  if (host.length > registryLengthMax || !hostPattern.test(host)) return null;
  const [bare = "", port] = host.split(":");
  if (bare.length > 253 || bare.split(".").some((label) => label.length > 63)) return null;
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)) return null;
  if (hubNames.has(bare) && (port === undefined || Number(port) === 443)) return defaultRegistry;
  return port === undefined || Number(port) === 443 ? bare : `${bare}:${Number(port)}`;
}

const hubNames: ReadonlySet<string> = new Set([
  "docker.io",
  "index.docker.io",
  "registry-1.docker.io",
  "registry.hub.docker.com",
]);

/** Where the registry's API is reached: Docker Hub's is on another host than its name says. */
export const registryApiHost = (registry: string): string =>
  registry === defaultRegistry ? "registry-1.docker.io" : registry;
