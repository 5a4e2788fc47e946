import { type DatabaseVolumesReply, type DatabaseVolumeView, databaseVolumesReply } from "@svc/proto";
import type { Api } from "../api.ts";
import { type Argument, argument } from "../command.ts";
import { CliError } from "../errors.ts";
import { branchName } from "./branches.ts";

/** What the commands about one volume take. */
export const volumeArguments = {
  volume: {
    ...argument.required("volume", "Its name, as `svc admin db volumes` has it"),
    completes: "volumes",
  } satisfies Argument<string>,
};

/** What bringing a database back takes. */
export const droppedArguments = {
  branch: {
    ...argument.required("branch", "Its id, or <project>/<channel>: the one that was dropped last"),
    completes: "dropped",
  } satisfies Argument<string>,
};

export const listVolumes = (api: Api): Promise<DatabaseVolumesReply> =>
  api.get("/admin/databases/volumes", databaseVolumesReply);

/** Whose it is, as people name it: by its id once its project is deleted. */
export const ownerName = ({
  databaseId,
  projectSlug,
  channel,
}: Pick<DatabaseVolumeView, "databaseId" | "projectSlug" | "channel">): string =>
  projectSlug === null || channel === null ? databaseId : branchName({ projectSlug, channel });

type Dropped = DatabaseVolumesReply["dropped"][number];

/** A database that was dropped, as people name it; null once its project is deleted. */
export const droppedName = ({ projectSlug, channel }: Dropped): string | null =>
  projectSlug === null ? null : branchName({ projectSlug, channel });

/** The database that was dropped and is meant: by its name the newest. CLOUD_NOT_FOUND when there is none. */
export async function findDropped(api: Api, named: string): Promise<Dropped> {
  const { dropped } = await listVolumes(api);
  const found = dropped.find((each) => each.id === named.toLowerCase() || droppedName(each) === named);
  if (found !== undefined) return found;
  throw new CliError("CLOUD_NOT_FOUND", `Nobody remembers a database "${named}" that was dropped`, {
    hint: "See what is kept with `svc admin db volumes`; one is named as shop/production",
  });
}

/** The volume of that name. CLOUD_NOT_FOUND when there is none that anything can be said about. */
export async function findVolume(api: Api, name: string): Promise<DatabaseVolumeView> {
  const found = (await listVolumes(api)).volumes.find((each) => each.name === name);
  if (found !== undefined) return found;
  throw new CliError("CLOUD_NOT_FOUND", `There is no volume "${name}" that a database had`, {
    hint: "See them with `svc admin db volumes`",
  });
}
