// @pure
import { domainToASCII, domainToUnicode } from "node:url";
import { getDomain, getPublicSuffix } from "tldts";
import { limits } from "./limits.ts";

/** Where the proof of a custom domain stands in its zone. */
export const proofName = (domain: string): string => `_svc.${domain}`;

const proofPrefix = "svc-verify=";

/** What stands there, for the token of one claim. */
export const proofValue = (token: string): string => `${proofPrefix}${token}`;

/** Suffixes that somebody else may register below also count: nobody owns two names below one of these. */
const psl = { allowPrivateDomains: true };

/** Whether nobody but a registry is above `domain` (A-labels): such a name cannot have a CNAME. */
export const isApex = (domain: string): boolean => getDomain(domain, psl) === domain;

/** The name one owner has for all that is below it: `example.net` of `a.shop.example.net`, and of itself. */
export const apexOf = (domain: string): string => getDomain(domain, psl) ?? domain;

/** The name that leads visitors to an apex whose owner did not say anything else of it; null for other names. */
export const wwwTwinOf = (domain: string): string | null => (isApex(domain) ? `www.${domain}` : null);

/** Of names in no public DNS (RFC 6761, 7686, 8375, 9476, and what routers at home call themselves). */
const specialSuffixes = [
  ...["alt", "arpa", "corp", "home", "internal", "intranet", "invalid", "lan", "local", "localdomain", "localhost"],
  ...["mail", "onion", "test"],
] as const;

const label = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** What may be typed, before anything reads it as an address: letters and digits of any script, hyphens and dots. */
const typed = /^[\p{L}\p{M}\p{N}.。．｡-]+$/u;

const isAtOrBelow = (name: string, host: string): boolean => name === host || name.endsWith(`.${host}`);

/**
 * A domain as it is stored and compared (lower-case A-labels, no dot at its end), or a sentence that says why nobody can
 * attach it. `ownHosts` are the platform's: these, what is below them, and what would lead to them are not given away.
 */
export function readDomain(text: string, ownHosts: readonly string[]): { domain: string } | { problem: string } {
  const name = text.trim().replace(/[.。．｡]$/u, "");
  if (name.startsWith("*.")) return { problem: "A wildcard cannot be attached; add each name by itself." };
  if (name.includes("_")) return { problem: "A name with an underscore is for records of DNS, and no site's." };
  if (!typed.test(name))
    return { problem: "Write a domain name alone, such as shop.example.net: no scheme, port or path." };
  // Elsewhere this reads digits as an address and leaves what it cannot read empty.
  const domain = domainToASCII(name);
  const problem = nameProblem(domain) ?? scriptProblem(domain) ?? placeProblem(domain, ownHosts);
  return problem === null ? { domain } : { problem };
}

function nameProblem(domain: string): string | null {
  const labels = domain.split(".");
  if (domain.length > limits.domainLengthMax || !labels.every((each) => label.test(each)))
    return "That is not a domain name: labels have 1 to 63 letters, digits and inner hyphens, and all of them 253 characters.";
  if (/^(\d+|0x[0-9a-f]*)$/.test(labels.at(-1) ?? "")) return "Write a domain name, not an IP address.";
  if (labels.length < 2) return "A domain has at least two labels, such as example.net.";
  return null;
}

function placeProblem(domain: string, ownHosts: readonly string[]): string | null {
  if (specialSuffixes.some((suffix) => isAtOrBelow(domain, suffix)))
    return "That name is in no public DNS, so nobody can prove that it is theirs.";
  if (getPublicSuffix(domain, psl) === domain)
    return "That is a public suffix, below which others have names of their own.";
  const names = [domain, wwwTwinOf(domain) ?? domain];
  if (ownHosts.some((host) => names.some((name) => isAtOrBelow(name, host)))) return "That name is the platform's own.";
  return null;
}

// ------------------------------------------------------------- names that look like other names

/** Scripts that are written together in one word; Latin goes with those of East Asia alone. */
const scriptsTogether = [
  ["Latin", "Han", "Hiragana", "Katakana"],
  ["Latin", "Han", "Bopomofo"],
  ["Latin", "Han", "Hangul"],
] as const;

const scripts = [
  ...["Latin", "Greek", "Cyrillic", "Armenian", "Hebrew", "Arabic", "Devanagari", "Bengali", "Gurmukhi", "Gujarati"],
  ...["Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Tibetan", "Myanmar", "Georgian"],
  ...["Hangul", "Ethiopic", "Cherokee", "Khmer", "Mongolian", "Hiragana", "Katakana", "Bopomofo", "Han"],
] as const;

const ofScript = scripts.map((name) => [name, new RegExp(`\\p{Script=${name}}`, "u")] as const);
const ofAnyScript = /[\p{Script=Common}\p{Script=Inherited}]/u;

/** Letters of Cyrillic and Greek that are taken for Latin ones, as browsers have them. */
const latinLookalike = /^[аьсԁеһіјӏорԛѕԝхуъбҽпгѵѡкмтαεηικνορτυχγωϲϳ0-9-]+$/u;

/**
 * Labels are read in one script, or in some that are written together, and nothing but look-alikes of Latin letters is no word of
 * another script: such a name stands for somebody else's.
 */
function scriptProblem(domain: string): string | null {
  const labels = domain.split(".");
  const suffixIsLatin = !(labels.at(-1) ?? "").startsWith("xn--");
  for (const each of labels.filter((one) => one.startsWith("xn--"))) {
    const text = domainToUnicode(each);
    if (text === "" || text === each || domainToASCII(text) !== each)
      return "That is not the spelling of an international name.";
    if (!isOneScript(text)) return `"${text}" mixes letters of several scripts, so it can be taken for another name.`;
    if (suffixIsLatin && latinLookalike.test(text)) return `"${text}" can be taken for a name in Latin letters.`;
  }
  return null;
}

function isOneScript(text: string): boolean {
  const used = new Set<string>();
  for (const character of text) {
    if (ofAnyScript.test(character)) continue;
    const found = ofScript.find(([, pattern]) => pattern.test(character));
    if (found === undefined) return false;
    used.add(found[0]);
  }
  return (
    used.size <= 1 || scriptsTogether.some((group) => [...used].every((name) => group.some((each) => each === name)))
  );
}
