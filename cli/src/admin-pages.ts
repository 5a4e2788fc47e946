import { type AdminProject, type AdminUser, adminProjectsReply, adminUsersReply, limits } from "@svc/proto";
import type { Api } from "./api.ts";

const pageLimit = 500;
/** Together far more than one answer may hold, and still not without end. */
const pagesMax = 100;

/** Rows of an administrator's list, newest first. `complete` is false when there are more than are ever asked for. */
interface Rows<T> {
  rows: T[];
  complete: boolean;
}
interface Page<T> {
  rows: T[];
  nextCursor: string | null;
}

const usersPage = async (api: Api, query: string): Promise<Page<AdminUser>> => {
  const { users, nextCursor } = await api.get(`/admin/users?${query}`, adminUsersReply);
  return { rows: users, nextCursor };
};

const projectsPage = async (api: Api, query: string): Promise<Page<AdminProject>> => {
  const { projects, nextCursor } = await api.get(`/admin/projects?${query}`, adminProjectsReply);
  return { rows: projects, nextCursor };
};

/** Page by page; with `search`, what has that text in a name, a slug or an address. */
async function* pages<T>(read: (query: string) => Promise<Page<T>>, search: string | null) {
  const query = new URLSearchParams({ limit: String(pageLimit) });
  if (search !== null) query.set("q", search.slice(0, limits.adminSearchLengthMax));
  for (let page = 1; page <= pagesMax; page++) {
    const { rows, nextCursor } = await read(query.toString());
    yield { rows, complete: nextCursor === null };
    if (nextCursor === null) return;
    query.set("cursor", nextCursor);
  }
}

async function all<T>(read: (query: string) => Promise<Page<T>>): Promise<Rows<T>> {
  const found: Rows<T> = { rows: [], complete: false };
  for await (const { rows, complete } of pages(read, null)) {
    found.rows.push(...rows);
    found.complete = complete;
  }
  return found;
}

async function first<T>(
  read: (query: string) => Promise<Page<T>>,
  search: string | null,
  isMeant: (row: T) => boolean,
): Promise<T | null> {
  for await (const { rows } of pages(read, search)) {
    const found = rows.find(isMeant);
    if (found !== undefined) return found;
  }
  return null;
}

export const listAccounts = (api: Api): Promise<Rows<AdminUser>> => all((query) => usersPage(api, query));
export const listAllProjects = (api: Api): Promise<Rows<AdminProject>> => all((query) => projectsPage(api, query));

/** The newest account that is meant, or null. It is looked for among all, and with `search` only where that text is. */
export const findAccount = (api: Api, search: string | null, isMeant: (user: AdminUser) => boolean) =>
  first((query) => usersPage(api, query), search, isMeant);

/** The same for a project. */
export const findAnyProject = (api: Api, search: string | null, isMeant: (project: AdminProject) => boolean) =>
  first((query) => projectsPage(api, query), search, isMeant);
