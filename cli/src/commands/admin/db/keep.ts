import { keepDatabaseVolumeReply } from "@svc/proto";
import { volumeArguments } from "../../../admin-databases/volumes.ts";
import { command } from "../../../command.ts";

export const adminDbKeep = command({
  name: "admin db keep",
  summary: "Keep a volume that a database had until you delete it",
  arguments: volumeArguments,
  examples: ["svc admin db keep svc-db-0123456789abcdef"],
  async run(context, { volume }) {
    const path = `/admin/databases/volumes/${encodeURIComponent(volume)}/keep`;
    const { name } = await (await context.api()).post(path, keepDatabaseVolumeReply);
    return { volume: name };
  },
  render: ({ volume }, { paint }) => `${paint("green", "✓")} ${volume} stays until \`svc admin db delete ${volume}\``,
});
