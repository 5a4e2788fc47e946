import { isLocal, type PlaintextService, type PlaintextUse } from "../../../settings/plaintext.ts";
import { type Finding, listed, warn } from "./finding.ts";

/** That a service is reached over a network in the clear, which an operator has allowed. */
export const judgePlaintext = (uses: readonly PlaintextUse[], service: PlaintextService): Finding[] =>
  uses
    .filter((use) => use.service === service)
    .map(({ setting, instead }) =>
      warn(
        `${setting} is used in the clear, as SVC_PLAINTEXT_ALLOW allows.`,
        `Unless the network encrypts by itself: ${instead}.`,
      ),
    );

/** `open`: endpoints that answer somebody without a certificate, over TLS or not, on other hosts. */
export const judgeOpenEtcd = (open: readonly string[]): Finding[] =>
  open.length === 0
    ? []
    : [
        warn(
          `etcd at ${listed(open)} answers clients without a certificate: whoever reaches it owns the cluster.`,
          "Start every member with `--client-cert-auth` and `--trusted-ca-file`.",
        ),
      ];

/** What sites do to their visitors and to the API by where they answer. */
export function judgeContent(content: { scheme: string; domain: string }, apiUrl: string): Finding[] {
  const { scheme, domain } = content;
  const api = new URL(apiUrl).hostname;
  const findings: Finding[] = [];
  if (scheme === "http" && !isLocal(domain))
    findings.push(
      warn(
        `Sites answer at http://*.${domain}: what visitors send crosses networks in the clear.`,
        "Set SVC_EDGE_TLS=acme on every edge, and SVC_CONTENT_URL to https://.",
      ),
    );
  if (api.includes(".") && domain.endsWith(`.${api}`))
    findings.push(
      warn(
        `Sites of ${domain} may set cookies of ${api}, where the API is.`,
        "Give the sites a domain of their own with SVC_CONTENT_URL.",
      ),
    );
  return findings;
}
