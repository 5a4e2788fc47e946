import { Link } from "react-router";
import { islands } from "../islands.js";

const edition = "first edition";

export const loader = () => ({
  edition,
  names: Object.keys(islands),
  port: process.env.PORT,
  publicUrl: process.env.SVC_PUBLIC_URL,
});

export default function Home({ loaderData: { edition, names, port, publicUrl } }) {
  return (
    <main>
      <h1>Ferry desk</h1>
      <p>{edition}</p>
      <ul>
        {names.map((name) => (
          <li key={name}>
            <Link to={`/islands/${name}`}>{name}</Link>
          </li>
        ))}
      </ul>
      <footer>{`port ${port}, at ${publicUrl}`}</footer>
    </main>
  );
}
