-- Projects of one account bring a layer that they have from the same place once. Null: nobody knows where it is from.
alter table image_layer add column origin text;
