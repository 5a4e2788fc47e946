import type { Readable } from "node:stream";
import type { ImageReference } from "@svc/proto";
import type { FoundManifest, Registry } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { type Credential, foreignRegistry } from "./client.ts";
import { ImageRefused, upstreamFailure } from "./failures.ts";
import { isNamedOwn } from "./own.ts";
import { aliasProblem, isPushed, type ReferenceRules, referenceProblem } from "./reference.ts";
import type { ResolveAddresses } from "./resolve.ts";

/** Where an image comes from: one repository, and what its errors mean for the deployment. */
export interface Origin extends AsyncDisposable {
  /** Host and repository. */
  name: string;
  /** The repository, if it is one of the operator's in the cluster's own registry: its blobs need not travel. */
  ownRepository: string | null;
  getManifest(reference: string, signal: AbortSignal): Promise<FoundManifest>;
  /** The bytes of a blob; its end is reached only by exactly those. */
  read(blob: { digest: string; size: number }, signal: AbortSignal): AsyncGenerator<Buffer>;
}

export interface OpenOptions {
  clock: Clock;
  /** The cluster's registry. */
  registry: Registry;
  rules: ReferenceRules;
  /** The account that the image is for; null: everybody's builds. */
  ownerId: string | null;
  /** The login for exactly this host. */
  findCredential(host: string): Promise<Credential | null>;
  resolve: ResolveAddresses;
  /** How long one whole transfer may take. */
  limitMs: number;
}

/** The registry of a reference, which is judged once more: the queue may have been long. Throws ImageRefused. */
export async function openOrigin(reference: ImageReference, options: OpenOptions): Promise<Origin> {
  const { clock, registry, rules, resolve, limitMs, ownerId } = options;
  const problem = referenceProblem(reference.canonical, rules, ownerId);
  if (problem !== null) throw new ImageRefused({ code: "OCI_REGISTRY_BLOCKED", message: problem });
  const { registry: host, repository } = reference;
  // What a tenant pushed is looked through on its way like what comes from anywhere else.
  if (isPushed(reference, rules, ownerId))
    return originOf({ registry, host, repository, hasCredential: false, isOwn: true, mayMount: false });
  const alias = await aliasProblem(clock, reference, rules, resolve, ownerId).catch((cause: unknown) => {
    throw new ImageRefused({ code: "OCI_PULL_FAILED", message: "" }, { temporary: true, cause });
  });
  if (alias !== null) throw new ImageRefused({ code: "OCI_REGISTRY_BLOCKED", message: alias });
  if (host === rules.ownRegistry.host)
    return originOf({ registry, host, repository, hasCredential: false, isOwn: true, mayMount: true });
  const credential = await options.findCredential(host);
  // An entry under another name stays for those who name it, and is nowhere to be led to.
  const allow = rules.allow.filter((each) => each === host || !isNamedOwn(each, rules.ownRegistry));
  return originOf({
    registry: foreignRegistry({ clock, host, credential, allow, resolve, transferTimeoutMs: limitMs }),
    host,
    repository,
    hasCredential: credential !== null,
    isOwn: false,
    mayMount: false,
  });
}

interface OriginOptions {
  registry: Registry;
  host: string;
  repository: string;
  hasCredential: boolean;
  /** Whether it is the cluster's own registry, which stays open. */
  isOwn: boolean;
  /** Whether its layers may be taken over as they are. */
  mayMount: boolean;
}

/** Every method throws ImageRefused for what the registry does. */
function originOf({ registry, host, repository, hasCredential, isOwn, mayMount }: OriginOptions): Origin {
  const translated = (error: unknown) => upstreamFailure(error, { host, hasCredential });
  return {
    name: `${host}/${repository}`,
    ownRepository: mayMount ? repository : null,
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
