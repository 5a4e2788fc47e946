import type { Readable } from "node:stream";
import type { ImageReference } from "@svc/proto";
import type { FoundManifest, Registry } from "@svc/registry";
import { foreignRegistry } from "../../registries/client.ts";
import { isNamedOwn } from "../../registries/own.ts";
import type { ResolveAddresses } from "../../registries/resolve.ts";
import type { Credential } from "../../registries/store.ts";
import { ImageRefused, upstreamFailure } from "./failures.ts";
import { aliasProblem, type ReferenceRules, referenceProblem } from "./reference.ts";

/** Where an image comes from: one repository, and what its errors mean for the deployment. */
export interface Origin extends AsyncDisposable {
  /** The repository, if it is one of the cluster's own registry: its blobs need not travel. */
  ownRepository: string | null;
  getManifest(reference: string, signal: AbortSignal): Promise<FoundManifest>;
  /** The bytes of a blob; its end is reached only by exactly those. */
  read(blob: { digest: string; size: number }, signal: AbortSignal): AsyncGenerator<Buffer>;
}

export interface OpenOptions {
  /** The cluster's registry. */
  registry: Registry;
  rules: ReferenceRules;
  /** The login for exactly this host. */
  findCredential(host: string): Promise<Credential | null>;
  resolve: ResolveAddresses;
  /** How long one whole transfer may take. */
  limitMs: number;
}

/** The registry of a reference, which is judged once more: the queue may have been long. Throws ImageRefused. */
export async function openOrigin(reference: ImageReference, options: OpenOptions): Promise<Origin> {
  const { registry, rules, resolve, limitMs } = options;
  const problem = referenceProblem(reference.canonical, rules);
  if (problem !== null) throw new ImageRefused({ code: "OCI_REGISTRY_BLOCKED", message: problem });
  const { registry: host, repository } = reference;
  const alias = await aliasProblem(reference, rules, resolve).catch((cause: unknown) => {
    throw new ImageRefused({ code: "OCI_PULL_FAILED", message: "" }, { temporary: true, cause });
  });
  if (alias !== null) throw new ImageRefused({ code: "OCI_REGISTRY_BLOCKED", message: alias });
  if (host === rules.ownRegistry.host)
    return originOf({ registry, host, repository, hasCredential: false, isOwn: true });
  const credential = await options.findCredential(host);
  // An entry under another name stays for those who name it, and is nowhere to be led to.
  const allow = rules.allow.filter((each) => each === host || !isNamedOwn(each, rules.ownRegistry));
  return originOf({
    registry: foreignRegistry({ host, credential, allow, resolve, transferTimeoutMs: limitMs }),
    host,
    repository,
    hasCredential: credential !== null,
    isOwn: false,
  });
}

interface OriginOptions {
  registry: Registry;
  host: string;
  repository: string;
  hasCredential: boolean;
  /** Whether it is the cluster's own registry, which stays open. */
  isOwn: boolean;
}

/** Every method throws ImageRefused for what the registry does. */
function originOf({ registry, host, repository, hasCredential, isOwn }: OriginOptions): Origin {
  const translated = (error: unknown) => upstreamFailure(error, { host, hasCredential });
  return {
    ownRepository: isOwn ? repository : null,
    getManifest: (reference, signal) =>
      registry.getManifest(repository, reference, { signal }).catch((error: unknown) => {
        throw translated(error);
      }),
    async *read({ digest, size }, signal) {
      try {
        yield* (await registry.pullBlob(repository, digest, { sizeBytes: size, signal })) as Readable;
      } catch (error) {
        throw translated(error);
      }
    },
    async [Symbol.asyncDispose]() {
      if (!isOwn) await registry.close();
    },
  };
}
