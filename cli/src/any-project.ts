import { findAnyProject } from "./admin-pages.ts";
import type { Api, Schema } from "./api.ts";
import { CliError } from "./errors.ts";
import { isId } from "./ids.ts";
import { type Target, targetFacts } from "./target.ts";

/**
 * Does something to the project with that slug or id, whoever owns it; for administrators. Returns what envelopes say
 * about the project, and the reply. CLOUD_NOT_FOUND when there is none.
 */
export async function actOnAnyProject<T>(api: Api, named: string, action: "suspend" | "resume", reply: Schema<T>) {
  const target = await findTarget(api, named);
  if (target === null) throw unknownProject(named);
  const answer = await api.post(`/admin/projects/${target.id}/${action}`, reply).catch((thrown: unknown) => {
    throw thrown instanceof CliError && thrown.code === "CLOUD_NOT_FOUND" ? unknownProject(named) : thrown;
  });
  return { project: targetFacts(target), answer };
}

/** An id is used as it is. */
async function findTarget(api: Api, named: string): Promise<Target | null> {
  return isId(named)
    ? { id: named.toLowerCase(), slug: null }
    : findAnyProject(api, named, ({ slug }) => slug === named);
}

const unknownProject = (named: string): CliError =>
  new CliError("CLOUD_NOT_FOUND", `There is no project "${named}"`, {
    hint: "See them with `svc admin projects list`",
  });
