import { saltAad } from "../../../fleet/analytics/salts.ts";
import { caKeyAad } from "../../../fleet/ca/authority.ts";
import { accountKeyAad, keyAad, orderKeyAad } from "../../../fleet/certificates/store.ts";
import {
  adminSecretAad,
  keeperSecretAad,
  pendingSecretAad,
  tenantSecretAad,
} from "../../../fleet/databases/secrets.ts";
import { envAad, fileEnvAad } from "../../../fleet/tasks/environment.ts";
import type { Channel } from "../../../stores/db/tables.ts";
import { previousWebhookSecretAad, webhookSecretAad } from "../../alerts/store.ts";
import { offsiteSecretAad } from "../../databases/backups/offsite/key.ts";
import { offsiteKeyAad } from "../../databases/copies/offsite/key.ts";
import { envOverlayAad, envVarAad } from "../../env/store.ts";
import { credentialAad } from "../../registries/store.ts";

/** A column of sealed values; see `Secrets`. */
export interface SealedPlace {
  table: string;
  column: string;
  /** The primary key's columns, in order. */
  key: readonly string[];
  /** Where the value of the row with these values of `key` belongs. */
  aad(...key: string[]): string;
}

/** Every column of the database that holds sealed values. A new one has to be named here, or rotation would miss it. */
export const sealedPlaces: readonly SealedPlace[] = [
  { table: "cluster", column: "ca_key", key: ["only"], aad: () => caKeyAad },
  { table: "acme_account", column: "key", key: ["directory"], aad: accountKeyAad },
  { table: "certificate", column: "key", key: ["name"], aad: keyAad },
  { table: "certificate", column: "order_key", key: ["name"], aad: orderKeyAad },
  { table: "registry_credential", column: "sealed", key: ["project_id", "host"], aad: credentialAad },
  { table: "env_var", column: "value", key: ["project_id", "key"], aad: envVarAad },
  {
    table: "env_overlay",
    column: "value",
    key: ["project_id", "channel", "key"],
    aad: (project, channel, name) => envOverlayAad(project ?? "", channel as Channel, name ?? ""),
  },
  { table: "database", column: "admin_secret", key: ["id"], aad: adminSecretAad },
  { table: "database", column: "secret", key: ["id"], aad: tenantSecretAad },
  { table: "database", column: "pending_secret", key: ["id"], aad: pendingSecretAad },
  { table: "database", column: "keeper_secret", key: ["id"], aad: keeperSecretAad },
  // A branch that was dropped comes back under its id.
  { table: "dropped_database", column: "admin_secret", key: ["id"], aad: adminSecretAad },
  { table: "dropped_database", column: "secret", key: ["id"], aad: tenantSecretAad },
  { table: "dropped_database", column: "pending_secret", key: ["id"], aad: pendingSecretAad },
  { table: "dropped_database", column: "keeper_secret", key: ["id"], aad: keeperSecretAad },
  { table: "database_backup", column: "offsite_secret", key: ["id"], aad: offsiteSecretAad },
  { table: "offsite_key", column: "secret", key: ["database_id"], aad: offsiteKeyAad },
  { table: "alert_webhook", column: "secret", key: ["id"], aad: webhookSecretAad },
  { table: "alert_webhook", column: "previous_secret", key: ["id"], aad: previousWebhookSecretAad },
  { table: "analytics_salt", column: "salt", key: ["day"], aad: saltAad },
  { table: "deployment", column: "env", key: ["id"], aad: envAad },
  { table: "deployment", column: "file_env", key: ["id"], aad: fileEnvAad },
];

/** As reports name it. */
export const placeName = ({ table, column }: SealedPlace): string => `${table}.${column}`;
