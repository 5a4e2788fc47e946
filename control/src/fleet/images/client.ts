import { registryApiHost } from "@svc/proto";
import { createRegistry, type Registry } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { createEgress } from "./egress.ts";
import type { ResolveAddresses } from "./resolve.ts";

/** Token services that are known to belong to a registry on another host. They may be given its credential. */
const tokenHosts: Readonly<Record<string, readonly string[]>> = {
  "docker.io": ["auth.docker.io"],
  "registry.gitlab.com": ["gitlab.com"],
};
const loopback = /^(127\.\d+\.\d+\.\d+|localhost)(:\d+)?$/;
const answerTimeoutMs = 20_000;

export interface ForeignOptions {
  clock: Clock;
  /** Normalised. */
  host: string;
  credential: Credential | null;
  /** Registries that the operator trusts; without the cluster's own, which strangers must not lead to. */
  allow: readonly string[];
  resolve: ResolveAddresses;
  /** How long one whole transfer may take. */
  transferTimeoutMs: number;
}

/**
 * A client of a registry that a user named. A public one leads to public hosts only; one that the operator trusts may
 * also lead to the others that the operator trusts, such as the store behind it.
 */
export function foreignRegistry({
  clock,
  host,
  credential,
  allow,
  resolve,
  transferTimeoutMs,
}: ForeignOptions): Registry {
  const isTrusted = allow.includes(host);
  return createRegistry(clock, {
    // Nobody else listens in on loopback, and what runs there seldom has a certificate.
    url: `${isTrusted && loopback.test(host) ? "http" : "https"}://${registryApiHost(host)}`,
    timeoutMs: answerTimeoutMs,
    transferTimeoutMs,
    authHosts: tokenHosts[host] ?? [],
    egress: createEgress(clock, resolve, isTrusted ? allow : []),
    ...(credential && { username: credential.username, password: credential.secret }),
  });
}

/** The login of one registry. */
export interface Credential {
  username: string;
  secret: string;
}
