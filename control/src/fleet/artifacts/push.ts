import type { Registry } from "@svc/registry";
import type { Random } from "@svc/runtime/random";
import type { Db } from "../../stores/db/pool.ts";
import { Refused } from "../../stores/refused.ts";
import { beginPush, endPush } from "./store.ts";

/**
 * The registry for what is pushed on behalf of a project: each push is announced before it begins, and what came of
 * it is recorded. Throws NOT_FOUND when the project is gone, besides what the registry throws.
 */
export const announcedPushes = (
  { random, db, registry }: { random: Random; db: Db; registry: Pick<Registry, "pushArtifact"> },
  projectId: string,
): Pick<Registry, "pushArtifact"> => ({
  async pushArtifact(repository, artifact) {
    const push = { id: random.uuid(), projectId, repository, kind: artifact.kind };
    if (!(await beginPush(db, push))) throw new Refused("NOT_FOUND");
    try {
      const pushed = await registry.pushArtifact(repository, { ...artifact, tag: push.id });
      await endPush(db, push, pushed);
      return pushed;
    } catch (error) {
      // Without this its repository would be left alone for an hour; more is not lost if it fails, too.
      await endPush(db, push, null).catch(() => {});
      throw error;
    }
  },
});
