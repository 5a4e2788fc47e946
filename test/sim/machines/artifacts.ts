import { createHash } from "node:crypto";
import type { PushDump } from "@svc/agent/backups/push";
import { type Registry, RegistryError } from "@svc/registry";
import type { Kernel, Scope } from "../kernel/kernel.ts";
import { createAnswer } from "../kernel/ports.ts";
import type { ServerTrouble } from "../world/databases.ts";

/** The cluster's registry, as far as backups go: it outlives every machine. */
export class Artifacts {
  /** Until then it does not answer. */
  awayUntilMs = 0;
  /** What is stored, by repository and digest. */
  private readonly files = new Map<string, string>();

  private readonly kernel: Kernel;
  private readonly trouble: ServerTrouble;

  constructor(kernel: Kernel, trouble: ServerTrouble) {
    this.kernel = kernel;
    this.trouble = trouble;
  }

  /** Null: there is no such file. */
  find(repository: string, digest: string): string | null {
    return this.files.get(`${repository}@${digest}`) ?? null;
  }

  /** What is asked of it; `isLossy`: the answer may be lost although it was done. */
  private ask<T>(scope: Scope, effect: () => T, isLossy = false): Promise<T> {
    const { kernel, trouble } = this;
    const { random } = scope.process;
    const answer = createAnswer<T>(scope);
    const away = () =>
      answer.reject(new RegistryError("ARTIFACT_REGISTRY_UNAVAILABLE", "no answer"), 1, "registry away");
    kernel.at(random.between(1, 40), "registry", () => {
      if (kernel.nowMs < this.awayUntilMs) return away();
      const value = effect();
      if (isLossy && random.chance(trouble.unknownShare)) away();
      else answer.resolve(value, random.between(0.5, 5), "registry answers");
    });
    return answer.promise;
  }

  /** Who sends backups there: see `createPushDump`. */
  pushDump(scope: Scope): PushDump {
    return async ({ targetRepository }, begin, signal) => {
      const parts: Buffer[] = [];
      const dump = (await begin())[Symbol.asyncIterator]();
      const aborted = Promise.withResolvers<never>();
      aborted.promise.catch(() => {});
      const stop = (): void => aborted.reject(signal.reason);
      if (signal.aborted) stop();
      else signal.addEventListener("abort", stop, { once: true });
      for (;;) {
        const { done, value } = await Promise.race([dump.next(), aborted.promise]);
        if (done === true) break;
        parts.push(value);
      }
      const text = Buffer.concat(parts).toString();
      const digest = `sha256:${createHash("sha256").update(text).digest("hex")}`;
      const store = () => void this.files.set(`${targetRepository}@${digest}`, text);
      await Promise.race([this.ask(scope, store, true), aborted.promise]);
      return { digest, sizeBytes: text.length };
    };
  }

  /** What control asks of it. */
  client(scope: Scope): Pick<Registry, "getManifest" | "sizeOfBlob"> {
    return {
      getManifest: (repository, digest) =>
        this.ask(scope, () => {
          const text = this.find(repository, digest);
          return text === null ? null : { manifest: { layers: [{ digest, size: text.length }] } };
        }).then((found) => {
          if (found === null) throw new RegistryError("ARTIFACT_NOT_FOUND", "there is no such manifest");
          return found as never;
        }),
      sizeOfBlob: (repository, digest) => this.ask(scope, () => this.find(repository, digest)?.length ?? null),
    };
  }
}
