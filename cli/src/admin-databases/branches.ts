import { type AdminDatabase, adminDatabasesReply } from "@svc/proto";
import type { Api } from "../api.ts";
import { type Argument, argument } from "../command.ts";
import { CliError } from "../errors.ts";

/** What the commands about one database of the installation take. */
export const branchArguments = {
  branch: {
    ...argument.required("branch", "Its id, or <project>/<channel>"),
    completes: "databases",
  } satisfies Argument<string>,
};

export const listDatabases = async (api: Api): Promise<AdminDatabase[]> =>
  (await api.get("/admin/databases", adminDatabasesReply)).databases;

export const branchName = ({ projectSlug, channel }: Pick<AdminDatabase, "projectSlug" | "channel">): string =>
  `${projectSlug}/${channel}`;

/** The database that is meant. CLOUD_NOT_FOUND when there is none. */
export async function findDatabase(api: Api, named: string): Promise<AdminDatabase> {
  const databases = await listDatabases(api);
  const found = databases.find((each) => each.id === named.toLowerCase() || branchName(each) === named);
  if (found !== undefined) return found;
  throw new CliError("CLOUD_NOT_FOUND", `There is no database "${named}"`, {
    hint: "See them with `svc admin db list`; one is named as shop/production",
  });
}
