/* Windows of GTK hold lists, trees and texts, are drawn and destroyed; the text that they end with is compared.
 * A screen is needed: a virtual one will do. cc $(pkg-config --cflags --libs gtk+-3.0) */
#include <gtk/gtk.h>

static GtkWidget *list(int rows) {
    GtkListStore *store = gtk_list_store_new(2, G_TYPE_INT, G_TYPE_STRING);
    for (int row = 0; row < rows; row++) {
        char *text = g_strdup_printf("%x", row * 7919 % 1009);
        GtkTreeIter at;
        gtk_list_store_insert_with_values(store, &at, -1, 0, row, 1, text, -1);
        g_free(text);
    }
    gtk_tree_sortable_set_sort_column_id(GTK_TREE_SORTABLE(store), 1, GTK_SORT_ASCENDING);
    GtkWidget *view = gtk_tree_view_new_with_model(GTK_TREE_MODEL(store));
    g_object_unref(store);
    gtk_tree_view_append_column(GTK_TREE_VIEW(view),
        gtk_tree_view_column_new_with_attributes("text", gtk_cell_renderer_text_new(), "text", 1, NULL));
    return view;
}

int main(int argc, char **argv) {
    gtk_init(&argc, &argv);
    for (int round = 0; round < 12; round++) {
        GtkWidget *window = gtk_window_new(GTK_WINDOW_TOPLEVEL), *box = gtk_box_new(GTK_ORIENTATION_VERTICAL, 4);
        GtkWidget *scroll = gtk_scrolled_window_new(NULL, NULL), *text = gtk_text_view_new();
        GtkTextBuffer *buffer = gtk_text_view_get_buffer(GTK_TEXT_VIEW(text));
        gtk_container_add(GTK_CONTAINER(scroll), list(500 + round * 40));
        gtk_box_pack_start(GTK_BOX(box), scroll, TRUE, TRUE, 0);
        gtk_box_pack_start(GTK_BOX(box), text, TRUE, TRUE, 0);
        for (int n = 0; n < 100; n++) {
            char *label = g_strdup_printf("line %d of %d\n", n, round);
            gtk_text_buffer_insert_at_cursor(buffer, label, -1);
            if (n % 10 == 0) gtk_container_add(GTK_CONTAINER(box), gtk_button_new_with_label(label));
            g_free(label);
        }
        gtk_container_add(GTK_CONTAINER(window), box);
        gtk_window_set_default_size(GTK_WINDOW(window), 400, 600);
        gtk_widget_show_all(window);
        for (int n = 0; n < 200; n++) while (gtk_events_pending()) gtk_main_iteration();
        GtkTextIter from, to;
        gtk_text_buffer_get_bounds(buffer, &from, &to);
        char *all = gtk_text_buffer_get_text(buffer, &from, &to, TRUE);
        g_print("%d %u\n", round, g_str_hash(all));
        g_free(all);
        gtk_widget_destroy(window);
    }
    return 0;
}
