-- Every order line with its customer and product, over all three databases.
-- complete: every transaction of every database becomes a state of the view that can be read later.
CREATE MATERIALIZED VIEW order_lines WITH (consistency = 'complete') AS
SELECT l.order_id, l.number, o.day, o.status, c.name, c.city, p.title, p.category,
       l.quantity, l.quantity * l.cents AS amount
FROM sales.line_item l
JOIN sales.orders o ON o.id = l.order_id
JOIN crm.customer c ON c.id = o.customer
JOIN catalog.product p ON p.id = l.product
