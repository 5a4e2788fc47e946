// @pure

/** A host, or `*.` and a domain, as certificates are named by. */
const certificateName = /^(?:\*\.)?[a-z0-9][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)+$/;
const nameLengthMax = 253;
const token = /^[A-Za-z0-9_-]{16,128}$/;
const answer = /^[A-Za-z0-9_-]{16,128}\.[A-Za-z0-9_-]{43}$/;

export const isCertificateName = (text: string): boolean => text.length <= nameLengthMax && certificateName.test(text);

/** Whether a challenge can be one of http-01 (RFC 8555, 8.1 and 8.3): its parts become names of files and what they hold. */
export const isChallenge = (challenge: { token: string; answer: string }): boolean =>
  token.test(challenge.token) && answer.test(challenge.answer) && challenge.answer.startsWith(`${challenge.token}.`);

/** Name of the file of a certificate: no host can be called like that of a wildcard. */
export const fileNameOf = (name: string): string => `${name.replace(/^\*\./, "_.")}.pem`;

/** The other way round; null for a file that is none of ours. */
export function nameOfFile(file: string): string | null {
  const name = file.endsWith(".pem") ? file.slice(0, -".pem".length).replace(/^_\./, "*.") : "";
  return isCertificateName(name) && fileNameOf(name) === file ? name : null;
}

/** Below this path of a host CAs look for answers. */
export const challengePath = "/.well-known/acme-challenge/";
