import { limits } from "./limits.ts";

/** A container image reference with its defaults written out. Exactly one of `tag` and `digest` is there. */
export type ImageReference = {
  /** Lower case host, with `:port` unless it is 443. */
  registry: string;
  repository: string;
  tag?: string;
  /** `sha256:` and 64 hex digits. */
  digest?: string;
  /** The whole reference again; parsing it gives the same. */
  canonical: string;
};

const defaultRegistry = "docker.io";
/** Of the longest host name and port. What is longer is not even looked at. */
const registryLengthMax = 253 + ":65535".length;
const hostPattern = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*(?::[0-9]{1,5})?$/;
const pathPart = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const tagPattern = /^\w[\w.-]{0,127}$/;
const digestPattern = /^sha256:[a-f0-9]{64}$/;

/** Whether `text` is a SHA-256 digest as registries write it. */
export const isDigest = (text: string): boolean => digestPattern.test(text);

/**
 * Reads `registry/name:tag` or `registry/name@sha256:…` by Docker's grammar. Names without a registry are
 * Docker Hub's (`nginx:1` is `docker.io/library/nginx:1`). A tag or a digest has to be written, never both:
 * which of the two is meant must not be a guess. Says nothing about whether the registry may be contacted.
 */
export function parseImageReference(text: string): ImageReference | { problem: string } {
  if (text.length > limits.imageReferenceLengthMax)
    return { problem: `An image reference has at most ${limits.imageReferenceLengthMax} characters.` };
  if (text.includes("://")) return { problem: "Write the image reference without https://." };
  if (!/^[\x21-\x7e]+$/.test(text))
    return { problem: "An image reference has letters, digits and punctuation of ASCII only, and is not empty." };

  const [named = "", digest, ...more] = text.split("@");
  if (more.length > 0) return { problem: 'An image reference has at most one "@".' };
  if (digest !== undefined && !digestPattern.test(digest))
    return { problem: "The digest after @ must be sha256: and 64 lower-case hex digits." };
  const { name, tag } = splitTag(named);
  if (tag !== undefined && !tagPattern.test(tag))
    return { problem: "The tag has 1 to 128 letters, digits, dots, hyphens and underscores." };
  if (tag !== undefined && digest !== undefined) return { problem: "Write either a tag or a digest, not both." };
  if (tag === undefined && digest === undefined)
    return { problem: `Write the tag or the digest, for example ${name || "name"}:1.0.` };

  const place = splitRegistry(name);
  if ("problem" in place) return place;
  const base = `${place.registry}/${place.repository}`;
  if (base.length > limits.imageNameLengthMax)
    return { problem: `Registry and name have at most ${limits.imageNameLengthMax} characters.` };
  if (digest !== undefined) return { ...place, digest, canonical: `${base}@${digest}` };
  return tag === undefined
    ? { problem: "Write the tag or the digest." }
    : { ...place, tag, canonical: `${base}:${tag}` };
}

/** The same for what a Dockerfile starts from: no tag means `latest` there, and one beside a digest says nothing. */
export function parseBaseImage(text: string): ImageReference | { problem: string } {
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

function splitRegistry(name: string): { registry: string; repository: string } | { problem: string } {
  const slash = name.indexOf("/");
  const first = slash === -1 ? "" : name.slice(0, slash);
  const named = first !== "" && (/[.:]/.test(first) || first === "localhost" || first !== first.toLowerCase());
  const registry = named ? normaliseRegistry(first) : defaultRegistry;
  if (registry === null) return { problem: `"${first}" is not a registry host.` };
  const path = named ? name.slice(slash + 1) : name;
  const repository = registry === defaultRegistry && !path.includes("/") ? `library/${path}` : path;
  if (!repository.split("/").every((part) => pathPart.test(part)))
    return { problem: "The image name has lower-case letters and digits, joined by . _ __ - and /." };
  if (!named && /^[a-f0-9]{64}$/.test(path)) return { problem: "64 hex digits alone are an image id, not a name." };
  return { registry, repository };
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
