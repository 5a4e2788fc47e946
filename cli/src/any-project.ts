import { type AdminProject, adminProjectsReply } from "@svc/proto";
import type { Api } from "./api.ts";
import { CliError } from "./errors.ts";

/** The project with that slug or id among everybody's; for administrators. CLOUD_NOT_FOUND when there is none. */
export async function getAnyProject(api: Api, named: string): Promise<AdminProject> {
  const { projects } = await api.get("/admin/projects", adminProjectsReply);
  const found = projects.find(({ id, slug }) => id === named.toLowerCase() || slug === named);
  if (found !== undefined) return found;
  throw new CliError("CLOUD_NOT_FOUND", `There is no project "${named}"`, {
    hint: "See them with `svc admin projects list`",
  });
}
