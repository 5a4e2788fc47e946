import { randomInt } from "node:crypto";
import { autoSlug, type CreateProjectInput, generateSlug, plural } from "@svc/proto";
import { lockUser } from "../../identity/accounts/store.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Config } from "../../settings/settings.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Project } from "../../stores/db/tables.ts";
import { Refused } from "../../stores/refused.ts";
import { countProjects, insertProject } from "./store.ts";
import { productionHost } from "./view.ts";

const suffixCharacters = "abcdefghijkmnpqrstuvwxyz23456789";
const suffixLength = 5;
/** More collisions than this among 33 million suffixes are no accident. */
const attemptsMax = 8;

const randomSuffix = () =>
  Array.from({ length: suffixLength }, () => suffixCharacters[randomInt(suffixCharacters.length)]).join("");

/**
 * Creates a project with its production host, in the caller's transaction. A generated slug is the name's own
 * when it is free, else that with a random suffix. Throws PLAN_FEATURE_UNAVAILABLE, QUOTA_EXCEEDED and SLUG_CONFLICT.
 */
export async function createProject(
  tx: Db,
  {
    id,
    ownerId,
    input,
    content,
  }: { id: string; ownerId: string; input: CreateProjectInput; content: Config["content"] },
): Promise<Project> {
  // The lock keeps the count exact when several requests arrive at once.
  await lockUser(tx, ownerId);
  const plan = await planOfUser(tx, ownerId);
  if (input.type === "ociimage" && plan.max_image_mb === 0) {
    throw new Refused("PLAN_FEATURE_UNAVAILABLE", "The plan does not include container images.");
  }
  if ((await countProjects(tx, ownerId)) >= plan.max_projects) {
    throw new Refused("QUOTA_EXCEEDED", `The plan allows ${plural(plan.max_projects, "project")}.`);
  }
  const insert = (slug: string) =>
    insertProject(
      tx,
      { id, owner_id: ownerId, name: input.name, slug, type: input.type },
      productionHost(slug, content),
    );

  if (input.slug !== undefined && input.slug !== autoSlug) {
    const project = await insert(input.slug);
    if (project === null) throw new Refused("SLUG_CONFLICT");
    return project;
  }
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const project = await insert(generateSlug(input.name, attempt === 0 ? "" : randomSuffix()));
    if (project !== null) return project;
  }
  throw new Refused("SLUG_CONFLICT", "No free slug was found for that name. Choose one.");
}
