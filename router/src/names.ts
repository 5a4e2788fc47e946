import { createHash } from "node:crypto";
import { isIPv4 } from "node:net";
import type { Route } from "@svc/proto/edge";
import { PageTarget_Page } from "@svc/proto/edge";
import { limits } from "@svc/proto/limits";

/**
 * A host name as the table spells it: lower case, at least two labels, each of letters, digits and inner
 * hyphens. Caddy refuses every other Host before it looks anything up, so neither a path separator nor a
 * pattern character can reach the lookup.
 */
export const hostPattern = "^[a-z0-9][a-z0-9-]*(?:\\.[a-z0-9][a-z0-9-]*)+$";

const hostLengthMax = 253;
/** Longest name that the file system takes. */
const entryLengthMax = 255;
/** Directory in the root of the table for the cookies that open gates. No host can be called like this. */
export const gateDirName = ".gate";
/** Likewise for links `<host>` to what never changes in the files of open sites, by which they are found without a lookup. */
export const filesDirName = ".files";
/** Likewise for links `<host>/<n>` to what never changes in files that the host served before; 1 is the last. */
export const predecessorsDirName = ".before";
export const upstreamsMax = limits.replicasMax;

const hostRegExp = new RegExp(hostPattern);

export const isHost = (text: string): boolean => text.length <= hostLengthMax && hostRegExp.test(text);

const bracketed = /^\[[0-9a-f:.]{2,45}\]$/;
/** Link-local (cloud metadata among them) and "this host": nothing of a tenant listens there. */
const forbiddenAddress = /^(?:169\.254\.|0\.|\[fe[89ab]|\[::\])/;

/** Whether `text` is address:port that Caddy may dial: no name. The characters are harmless in a file name and hold no placeholder. */
export function isUpstream(text: string): boolean {
  const at = text.lastIndexOf(":");
  const host = text.slice(0, at);
  const port = text.slice(at + 1);
  if (at <= 0 || !/^[1-9]\d{0,4}$/.test(port) || Number(port) > 65_535) return false;
  if (forbiddenAddress.test(host)) return false;
  return isIPv4(host) || bracketed.test(host);
}

const bundleDigest = /^sha256:([0-9a-f]{64})$/;

/** Name of the directory of a bundle; null when `digest` is not a sha256 digest. */
export const bundleName = (digest: string): string | null => bundleDigest.exec(digest)?.[1] ?? null;

/** Whether `text` names the directory of a bundle. */
export const isBundleName = (text: string): boolean => /^[0-9a-f]{64}$/.test(text);

/** Separates the parts of an entry name. No part can hold one. */
const separator = "~";

/**
 * Name of the entry of a route in the table of names, without its sequence number: the kind and what it
 * needs, such as `p2~10.0.0.1:80~10.0.0.2:80`. Kinds: p1, p2… proxy to so many upstreams, t1, t2… to so many
 * entrances, s static, f static with index.html as the fallback, s1 and f1 the same with rules of the site, x a page of the platform, r redirect to
 * another host. Before them, if there is a password, the wicket of its gate; and before that, if browsers are told to use TLS alone,
 * h31536000 for so many seconds, or i31536000 with all below the host.
 *
 * @param hasRules whether the bundle of that name has rules
 */
export function targetName(
  route: Route,
  hasRules: (bundle: string) => boolean = () => false,
): { name: string } | { problem: string } {
  const parts = targetParts(route, hasRules);
  if ("problem" in parts) return parts;
  const fits = (name: string): boolean => name.length + sequenceLength + 1 <= entryLengthMax;
  const told = hstsParts(route);
  const open = [...told, ...parts].join(separator);
  if (route.gate === "") return fits(open) ? { name: open } : { problem: "the target is too long" };
  // A host with a password always gets a name: without one it would stay as open as it was.
  const gate = isRevision(route.gate) ? wicketName({ revision: route.gate, channel: route.channel }) : shut;
  const [kind = "", ...upstreams] = parts;
  for (let count = upstreams.length; count > 0; count -= 1) {
    const kept = count === upstreams.length ? parts : [`${kind.charAt(0)}${count}`, ...upstreams.slice(0, count)];
    const name = [...told, gate, ...kept].join(separator);
    if (fits(name)) return { name };
  }
  return { name: [...told, gate, "x", "failed"].join(separator) };
}

/** With more digits it could be taken for a gate. */
const hstsParts = ({ hsts }: Route): string[] =>
  hsts?.maxAgeSeconds === undefined
    ? []
    : [`${hsts.includeSubdomains ? "i" : "h"}${Math.min(hsts.maxAgeSeconds, limits.hstsMaxAgeSecondsMax)}`];

const revision = "[A-Za-z0-9_-]{11}";
const revisionRegExp = new RegExp(`^${revision}$`);

/** Whether `text` can name a gate. */
export const isRevision = (text: string): boolean => revisionRegExp.test(text);

/** A gate as one channel of its project has it. */
export interface Wicket {
  /** Of the gate. */
  revision: string;
  channel: string;
}

/** What a wicket is called in the table of names, and where the cookies that open it are looked up. Looks like a revision. */
export const wicketName = ({ revision: gate, channel }: Wicket): string =>
  createHash("sha256").update(`${gate} ${channel}`).digest("base64url").slice(0, 11);

/** A gate that nobody can pass: better than none, where control named one that cannot be. */
const shut = "_".repeat(11);

const pageNames: Partial<Record<number, string>> = {
  [PageTarget_Page.STOPPED]: "stopped",
  [PageTarget_Page.SUSPENDED]: "suspended",
  [PageTarget_Page.EMPTY]: "empty",
  [PageTarget_Page.DOWN]: "down",
};

function targetParts({ host, target }: Route, hasRules: (bundle: string) => boolean): string[] | { problem: string } {
  if (!isHost(host)) return { problem: "not a host name" };
  switch (target.case) {
    case "proxy": {
      const upstreams = [...new Set(target.value.upstreams)].sort();
      if (upstreams.length === 0) return { problem: "no upstream" };
      if (upstreams.length > upstreamsMax) return { problem: `more than ${upstreamsMax} upstreams` };
      if (!upstreams.every(isUpstream)) return { problem: "an upstream is not host:port" };
      const entrances = upstreams.filter((upstream) => target.value.entrances.includes(upstream));
      // One that only takes TLS and one that does not know it cannot share a handler of Caddy's.
      return entrances.length > 0 ? [`t${entrances.length}`, ...entrances] : [`p${upstreams.length}`, ...upstreams];
    }
    case "static": {
      const bundle = bundleName(target.value.digest);
      if (bundle === null) return { problem: "the bundle has no sha256 digest" };
      return [`${target.value.spa ? "f" : "s"}${hasRules(bundle) ? "1" : ""}`, bundle];
    }
    case "page": {
      const page = pageNames[target.value.page];
      return page === undefined ? { problem: "an unknown page" } : ["x", page];
    }
    case "redirect": {
      if (!isHost(target.value.host)) return { problem: "a redirect to something that is not a host name" };
      if (target.value.host === host) return { problem: "a redirect to itself" };
      return ["r", target.value.host];
    }
    default:
      return { problem: "no target" };
  }
}

const sequenceLength = 14;
/** Sequence numbers count down from here, so that of two entries of a host the newer sorts first. */
export const firstSequence = Number.MAX_SAFE_INTEGER;

/** Name of the directory entry: what the lookup finds under the host's directory. */
export const entryName = (sequence: number, target: string): string =>
  `${sequence.toString(16).padStart(sequenceLength, "0")}${separator}${target}`;

const entryRegExp = new RegExp(`^([0-9a-f]{${sequenceLength}})${separator}(.+)$`);

/** The parts of an entry name; null for a name that is not ours. */
export function parseEntry(name: string): { sequence: number; target: string } | null {
  const [, sequence, target] = entryRegExp.exec(name) ?? [];
  if (sequence === undefined || target === undefined) return null;
  return { sequence: Number.parseInt(sequence, 16), target };
}

/**
 * What Caddy splits the found path `/<host>/<entry>` with: group 1 is the gate (empty without one), group 2 the kind,
 * group 3 its arguments. Runs for every request, so it does no more than that; only several upstreams are taken apart
 * by another one.
 */
export const entryPattern = `^/[^~]+~(?:(${revision})~)?([a-z][0-9]*)~(.+)$`;

/** Likewise, of entries that do not begin with what browsers are told of TLS. */
export const untoldPattern = `^/[^~]+~(?:(${revision})~)?([a-gj-z][0-9]*)~(.+)$`;

/** What is behind the first part of an entry that tells browsers of TLS, into the same groups. */
export const toldPattern = `^(?:(${revision})~)?([a-z][0-9]*)~(.+)$`;

/** Matches what is found of an open app with one upstream, whose address is group 1. A gate is never as short as a kind. */
export const openAppPattern = "^/[^~]+~p1~(.+)$";
/** Likewise with one entrance. */
export const openEntrancePattern = "^/[^~]+~t1~(.+)$";

const openFiles = "([sf])~([0-9a-f]{64})$";
/** Matches what is found of an open static site: group 1 is the kind, group 2 the bundle. */
export const openFilesPattern = `^/[^~]+~${openFiles}`;

const openFilesRegExp = new RegExp(`^${openFiles}`);

/** Bundle of an open static site; null when the target is anything else. */
export const openBundleOf = (target: string): string | null => openFilesRegExp.exec(target)?.[2] ?? null;

/** Takes the arguments of `p<count>` and `t<count>` apart: one group per upstream. */
export const upstreamsPattern = (count: number): string => `^${Array(count).fill("([^~]+)").join(separator)}$`;

/** Name in the root of the table that says it is complete. No host can be called like this. */
export const readyName = ".ready";

/** Name under which Caddy writes its access log; what is full gets a time into its name. */
export const accessLogName = "access.log";
