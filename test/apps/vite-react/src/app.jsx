import harbour from "./harbour.svg";
import { harbours } from "./harbours.js";

const edition = "first edition";

function Table({ harbour: { name, tides } }) {
  return (
    <section>
      <h2>{name}</h2>
      <ol>
        {tides.map(({ at, metres }) => (
          <li key={at} style={{ "--level": metres / 8 }}>
            <time>{at}</time> <strong>{metres.toFixed(1)} m</strong>
          </li>
        ))}
      </ol>
    </section>
  );
}

export function App({ path }) {
  const chosen = harbours.find(({ slug }) => path === `/harbours/${slug}`);
  return (
    <main>
      <header>
        <img src={harbour} alt="" width="96" height="96" />
        <h1>Tide tables</h1>
        <p>{edition}</p>
      </header>
      {chosen ? <Table harbour={chosen} /> : null}
      <nav>
        {harbours.map(({ slug, name }) => (
          <a key={slug} href={`/harbours/${slug}`} aria-current={slug === chosen?.slug ? "page" : undefined}>
            {name}
          </a>
        ))}
      </nav>
    </main>
  );
}
